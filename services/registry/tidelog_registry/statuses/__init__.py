"""The status bucket."""
