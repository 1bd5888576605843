"""The ways in: bytes become messages to actors."""
