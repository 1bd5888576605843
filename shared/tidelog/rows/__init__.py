"""TiDB's row encodings in both directions. Pure: bytes in, values out, no clock and no files."""
