"""Windows of changes into the downstream, over its failures; DDL in between; the checkpoint."""
