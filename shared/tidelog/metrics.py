"""Metrics every service has, and their exposition. Each room defines its own beside its code.

What is only looked at, never counted, is `shown`: it is read from what an actor says of itself when
somebody scrapes, so that nothing hot ever sets it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from prometheus_client import REGISTRY, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tidelog.timestamps import TS_MAX, physical_ms

INTERVAL_S = 0.1
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
"""Buckets of what takes a disk or a network as long as it takes."""

Actors = Mapping[str, Mapping[str, Any]]
"""What each actor says of itself, by its name: `actors` of /status."""
Reading = float | None | Mapping[str, float | None] | Mapping[tuple[str, ...], float | None]
"""A value; by label (or labels), where there are some. None = not known."""

ready = Gauge("tidelog_ready", "1 while every actor of the service runs")
restarts = Gauge("tidelog_actor_restarts", "Restarts of actors since the process started")
build_info = Gauge(
    "tidelog_build_info", "1, with what runs here", ["service", "node", "cluster", "version"]
)
stall = Histogram(
    "tidelog_loop_stall_seconds",
    "How late the event loop came to a timer, sampled each 100 ms",
    buckets=(0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5),
)


class Count(Gauge):
    """A counter under exactly its name, for names of the original: a Counter's gets `_total`, and
    the dashboards and alert rules people have would not find it."""


class Shown(NamedTuple):
    """A gauge of what `actor` (`*` = each, by name) says of itself."""

    name: str
    help: str
    actor: str
    read: Callable[[Mapping[str, Any]], Reading]
    labels: tuple[str, ...] = ()

    def values(self, actors: Actors) -> Iterable[tuple[tuple[str, ...], float]]:
        """What is known now, with its labels' values."""
        for name, said in actors.items():
            if self.actor not in (name, "*"):
                continue
            found = _read(self.read, said)
            if isinstance(found, Mapping):
                for key, value in found.items():
                    if value is not None:
                        yield ((key,) if isinstance(key, str) else key), float(value)
            elif found is not None:
                yield ((name,) if self.actor == "*" else ()), float(found)


class _FromStatus(Collector):
    """All that is `shown`. A value that is not known is not there: 0 would be one."""

    def __init__(self) -> None:
        self.shown: dict[str, Shown] = {}
        self.actors: Actors = {}

    def describe(self) -> Iterable[Metric]:
        return [self._family(one) for one in self.shown.values()]

    def collect(self) -> Iterable[Metric]:
        for one in self.shown.values():
            family = self._family(one)
            for labels, value in one.values(self.actors):
                family.add_metric(labels, value)
            yield family

    @staticmethod
    def _family(one: Shown) -> GaugeMetricFamily:
        return GaugeMetricFamily(one.name, one.help, labels=one.labels)


_from_status = _FromStatus()
REGISTRY.register(_from_status)


def shown(
    name: str,
    text: str,
    actor: str,
    read: Callable[[Mapping[str, Any]], Reading],
    *labels: str,
) -> Shown:
    """Define a gauge that is read from an actor's status. Where `read` raises KeyError or TypeError
    (the actor is starting, or has nothing to say) nothing is known."""
    one = Shown(name, text, actor, read, labels)
    _from_status.shown[name] = one
    return one


def _read(read: Callable[[Mapping[str, Any]], Reading], said: Mapping[str, Any]) -> Reading:
    try:
        return read(said)
    except (KeyError, TypeError):
        return None


def position_ms(ts: int | None) -> float | None:
    """A position as the original shows it: the physical part, milliseconds since 1970. None while
    there is none."""
    return physical_ms(ts) if ts and ts < TS_MAX else None


MAILBOX = shown(
    "tidelog_mailbox_messages",
    "Messages that wait for an actor",
    "*",
    lambda said: said["mailbox"],
    "actor",
)
MAILBOX_BYTES = shown(
    "tidelog_mailbox_bytes",
    "Bytes of the messages that wait for an actor",
    "*",
    lambda said: said["mailbox_bytes"],
    "actor",
)


def exposition(actors: Actors) -> bytes:
    """The text format of Prometheus."""
    _from_status.actors = actors
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
