"""One registry acts: its lease, and what the others ask of it."""
