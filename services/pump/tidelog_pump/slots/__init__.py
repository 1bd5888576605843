"""Several Pumps on one directory: each takes a slot; those that nobody serves are adopted."""
