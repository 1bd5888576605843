"""For all tests."""

from __future__ import annotations

import structlog

# As an application that sets up its own logs: else the first client that a test makes does it.
structlog.configure()
