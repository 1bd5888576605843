"""TiDB's schema history: models of its JSON, the tracker, our public table structure."""
