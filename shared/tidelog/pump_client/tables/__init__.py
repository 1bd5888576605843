"""What a table takes: values checked by column type, rows encoded as TiDB does it. Pure."""
