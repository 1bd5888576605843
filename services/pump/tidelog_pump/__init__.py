"""Tidelog pump."""
