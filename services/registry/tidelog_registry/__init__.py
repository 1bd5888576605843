"""Tidelog registry."""
