"""Logs: structlog to stderr, JSON in containers, readable on a terminal (design section 3)."""

from __future__ import annotations

import logging
import sys
from typing import TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from tidelog.errors import ConfigError

FORMATS = ("auto", "json", "text")
LEVELS = ("debug", "info", "warning", "error")


def configure(
    log_format: str = "auto", level: str = "info", *, stream: TextIO | None = None, **fields: str
) -> None:
    """Set up this process's logs; `fields` (service, node, feed) are in every line. Lines of the
    libraries go the same way, from warning on. Raises ConfigError."""
    if log_format not in FORMATS:
        raise ConfigError(f"log-format {log_format!r}", hint="one of " + ", ".join(FORMATS))
    if level not in LEVELS:
        raise ConfigError(f"log-level {level!r}", hint="one of " + ", ".join(LEVELS))
    target = stream or sys.stderr
    readable = log_format == "text" or (log_format == "auto" and target.isatty())
    shared = _processors({name: value for name, value in fields.items() if value})
    last: list[Processor] = (
        [
            structlog.dev.ConsoleRenderer(
                colors=target.isatty(),
                # The pretty one shows local variables, and with them secrets.
                exception_formatter=structlog.dev.plain_traceback,
            )
        ]
        if readable
        else [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    )
    structlog.configure(
        processors=[*shared, *last],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        logger_factory=structlog.PrintLoggerFactory(target),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(target)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.WARNING)


def quiet() -> None:
    """In an application that set up no logs of its own: warnings and errors only, on standard
    error. What structlog does by itself puts debug lines among the application's output."""
    if not structlog.is_configured():
        structlog.configure(
            wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
            logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        )


def _processors(fields: dict[str, str]) -> list[Processor]:
    def add_fields(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        for name, value in fields.items():
            event.setdefault(name, value)
        return event

    return [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        add_fields,
    ]
