"""Tidelog: the library that its services share and that applications import."""
