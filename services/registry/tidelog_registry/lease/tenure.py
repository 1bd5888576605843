"""Whether this registry may act now: the part of its lease that its other actors ask. Pure."""

from __future__ import annotations

from tidelog.errors import Stopped, Unavailable
from tidelog.ports import Clock

LEASE_S = 4.0
"""A registry acts within this long of its last renewal."""
TAKEOVER_S = 6.0
"""A record that stood unchanged for so long holds nobody back: its writer, whose clock may run a
little slower, has not acted for a while."""


class AnotherRegistry(Stopped):
    """Two registries run for one cluster."""

    default_hint = "run one registry for a cluster; this one stops"


class Tenure:
    """Only `Lease` changes it. A renewal counts from before it was sent: the record can't be older.
    Either clock may say that it is over: the monotonic one stands still while a virtual machine is
    suspended, the other one may be set."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until = (0.0, 0)
        self.epoch = 0
        """One more with each taking of the lease."""
        self.alone_from = 0.0
        """From this monotonic time on nobody else can still be acting (see `Lease`)."""

    def now(self) -> tuple[float, int]:
        """Monotonic seconds and wall milliseconds."""
        return self._clock.monotonic(), self._clock.wall_ms()

    def renewed(self, began: tuple[float, int]) -> None:
        self._until = (began[0] + LEASE_S, began[1] + int(LEASE_S * 1000))

    def end(self) -> None:
        self._until = (0.0, 0)

    def holds(self) -> bool:
        monotonic, wall_ms = self.now()
        return monotonic < self._until[0] and wall_ms < self._until[1]

    def check(self) -> None:
        """Raises Unavailable."""
        if not self.holds():
            raise Unavailable(
                "this registry's lease is not renewed at the moment",
                hint="it renews it each second; is NATS there, and is its store writable?",
            )
