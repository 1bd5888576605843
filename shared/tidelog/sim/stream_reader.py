"""Reading a simulated stream: in order, over restarts of the server, never silently past a hole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.errors import Purged, StreamMissing, Unavailable
from tidelog.ports import Message
from tidelog.sim.life import Life
from tidelog.sim.nats import SimNats, settle
from tidelog.sim.streams import SimStream

if TYPE_CHECKING:
    from tidelog.sim.bus import SimBus


class SimStreamReader:
    def __init__(
        self,
        nats: SimNats,
        bus: SimBus,
        life: Life,
        stream: str,
        start_seq: int,
        subjects: tuple[str, ...],
    ) -> None:
        self._nats = nats
        self._bus = bus
        self._life = life
        self._stream = stream
        self._next = start_seq
        self._subjects = subjects
        self._created = ""
        self._seen = 0
        """The highest sequence that was read or passed over."""
        self._last: Message | None = None

    async def next_batch(self, max_messages: int, max_wait_s: float) -> list[Message]:
        self._life.check()
        loop = self._nats.loop
        deadline = loop.time() + max_wait_s
        while True:
            left = max(0.0, deadline - loop.time())
            try:
                await self._bus.linked(left)
            except Unavailable:
                return []
            found = self._take(max_messages)
            if found:
                epoch = self._bus.epoch
                await self._bus.hop()
                if epoch == self._bus.epoch:
                    self._last = found[-1]
                    self._seen = self._last.sequence
                    self._next = self._seen + 1
                    return found
                continue
            if left <= 0:
                return []
            await self._changed(left)

    async def close(self) -> None:
        """Nothing to give back: the server keeps no state for a reader."""

    def check(self) -> SimStream:
        """It is still the stream that was read. Raises StreamMissing, Purged."""
        stream = self._nats.streams.get(self._stream)
        if stream is None:
            raise StreamMissing(f"there is no stream {self._stream}")
        if self._created and stream.created != self._created:
            raise StreamMissing(f"{self._stream} was made anew")
        self._created = stream.created
        stream.expire(self._nats.loop.time())
        if stream.last_seq < self._seen:
            raise StreamMissing(f"{self._stream} was rolled back to {stream.last_seq}")
        if self._last is not None:
            there = stream.at(self._last.sequence)
            if there is not None and there is not self._last:
                raise StreamMissing(f"{self._stream} was rolled back below {self._seen}")
        superseding = stream.config.max_msgs_per_subject > 0
        if not superseding and stream.first_seq > self._next:
            raise Purged(f"{self._stream} starts at {stream.first_seq}, not {self._next}")
        return stream

    def _take(self, max_messages: int) -> list[Message]:
        stream = self.check()
        found, after = stream.take(self._next, self._subjects, max_messages)
        if not found:
            self._next = after
            self._seen = max(self._seen, min(after - 1, stream.last_seq))
        return found

    async def _changed(self, timeout_s: float) -> None:
        watch = self._nats.watch(self._stream)
        timer = self._nats.loop.call_later(timeout_s, settle, watch)
        try:
            await watch
        finally:
            timer.cancel()
        self._life.check()
