"""Logs into a database, or into Parquet: last write per key between DDLs, all keys at once."""
