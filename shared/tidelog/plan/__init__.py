"""What a lane writes for a run of changes. Pure."""
