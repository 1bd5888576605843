"""A cancellation that a library would lose."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def cancellable() -> Iterator[None]:
    """`asyncio.wait_for` before Python 3.12, and gRPC's streams, give the result, or the error, of
    what ended in the moment of a cancellation; nats-py catches some. It would be lost, and whoever
    was to end goes on for ever. Raises CancelledError again."""
    task = asyncio.current_task()
    assert task is not None
    before = task.cancelling()
    try:
        yield
    finally:
        was_cancelled = task.cancelling() > before
        del task  # which ends with the error that knows this frame: a cycle for each cancellation
        if was_cancelled:
            raise asyncio.CancelledError
