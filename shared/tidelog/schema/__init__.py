"""What TiDB's schema history says: models of its JSON, the tracker, and our public table structure."""
