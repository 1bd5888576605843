"""The Pump's own log lines, of which ten thousand starts write too many."""

from __future__ import annotations

import logging

import structlog


def quiet() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
