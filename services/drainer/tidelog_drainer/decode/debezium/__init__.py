"""The `debezium` envelope: change events as Debezium's readers know them (docs/reading.md)."""
