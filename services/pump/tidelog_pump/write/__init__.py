"""Group commit: what becomes of payloads handed in."""
