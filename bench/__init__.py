"""Figures beside the limits of the machine they were measured on (`make bench`)."""
