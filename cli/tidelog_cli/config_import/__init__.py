"""The original's configurations as ours."""
