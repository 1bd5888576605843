"""Planted bugs: proof that the harness would notice the loss of a safety step (reliability R15)."""
