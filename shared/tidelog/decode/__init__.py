"""Payloads into DDLs and rows."""
