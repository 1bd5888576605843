"""Tidelog applier."""
