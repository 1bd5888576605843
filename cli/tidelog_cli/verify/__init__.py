"""Are a source and a downstream equal? By checksums of chunks, and rows where those differ."""
