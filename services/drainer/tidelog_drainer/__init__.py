"""Tidelog drainer."""
