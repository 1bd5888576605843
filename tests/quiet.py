"""For a process that plays thousands of lives."""

from __future__ import annotations

import logging

import structlog

from tidelog.leftovers import settle


def quiet() -> None:
    """No log lines of the services, which would be most of the time and all of the output; and what
    is imported by now is not looked at again for what nothing refers to, a tenth of it."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    settle()
