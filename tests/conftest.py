"""For all tests."""

from __future__ import annotations

import signal

import structlog
from hypothesis import HealthCheck, settings

# As an application that sets up its own logs: else the first client that a test makes does it.
structlog.configure()

# A shell that starts a command in the background has it ignore Ctrl-C, and so all that it starts.
signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes is the machine's and its other work's affair.
settings.register_profile(
    "tidelog", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("tidelog")
