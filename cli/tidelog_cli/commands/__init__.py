"""One command, or one family of them, a module: its options, and what is printed."""
