"""Open Prewrites, resolved_ts, and what becomes of those that nobody closes."""
