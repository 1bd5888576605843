"""Metrics every service has, and their exposition. Each room defines its own beside its code."""

from __future__ import annotations

import asyncio

from prometheus_client import REGISTRY, Gauge, Histogram, generate_latest

INTERVAL_S = 0.1
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

ready = Gauge("tidelog_ready", "1 while every actor of the service runs")
restarts = Gauge("tidelog_actor_restarts", "Restarts of actors since the process started")
stall = Histogram(
    "tidelog_loop_stall_seconds",
    "How late the event loop came to a timer, sampled each 100 ms",
    buckets=(0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5),
)


class Count(Gauge):
    """A counter under exactly its name, for names of the original: a Counter's gets `_total`, and
    the dashboards and alert rules people have would not find it."""


def exposition() -> bytes:
    """The text format of Prometheus."""
    return generate_latest(REGISTRY)


class StallWatch:
    """Observes how late the loop is; it needs no task, only a timer."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self.worst_s = 0.0

    def start(self) -> None:
        self._due = self._loop.time() + INTERVAL_S
        self._timer = self._loop.call_at(self._due, self._tick)

    def _tick(self) -> None:
        late = max(0.0, self._loop.time() - self._due)
        stall.observe(late)
        self.worst_s = max(self.worst_s, late)
        self.start()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
