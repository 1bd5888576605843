"""The embedded oracle (I9)."""
