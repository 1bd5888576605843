"""A key-value bucket on a stream, as NATS lays it out (`KV_<bucket>`, `$KV.<bucket>.<key>`).

Over the Bus port, so that the same code runs on the server and in the simulator, and the `nats kv`
command reads it. Every read goes to the leader.
"""

from __future__ import annotations

import msgspec

from tidelog.errors import StreamMissing, Unavailable
from tidelog.ports import Bus, Headers, Message, Outgoing, StreamConfig, StreamState

_OPERATION = "KV-Operation"
READ_S = 5.0
"""How long a bucket that has more to give may be silent."""


class Entry(msgspec.Struct, frozen=True):
    key: str
    value: bytes
    revision: int
    headers: Headers = {}


class Bucket:
    def __init__(self, bus: Bus, name: str) -> None:
        self.name = name
        self.stream = f"KV_{name}"
        self._bus = bus
        self._prefix = f"$KV.{name}."

    async def create(self) -> StreamState:
        """Create if missing; the state tells by `created` whether it is the one known."""
        return await self._bus.stream_create(
            StreamConfig(self.stream, (f"{self._prefix}>",), max_msgs_per_subject=1)
        )

    async def state(self) -> StreamState | None:
        return await self._bus.stream_state(self.stream)

    async def get(self, key: str) -> Entry | None:
        """Raises StreamMissing."""
        message = await self._bus.last_message(self.stream, self._prefix + key)
        if message is None or message.headers.get(_OPERATION):
            return None
        return _entry(key, message)

    async def put(
        self, key: str, value: bytes, *, expected: int | None = None, headers: Headers | None = None
    ) -> int:
        """Returns the revision. `expected`: the revision it replaces, 0 = none. Raises Conflict."""
        return await self._bus.append(
            self.stream,
            [Outgoing(self._prefix + key, value, headers or {})],
            expected_last_subject_seq=expected,
        )

    async def delete(self, key: str, *, expected: int | None = None) -> int:
        return await self._bus.append(
            self.stream,
            [Outgoing(self._prefix + key, b"", {_OPERATION: "DEL"})],
            expected_last_subject_seq=expected,
        )

    async def entries(self) -> tuple[dict[str, Entry], int]:
        """All living entries, and the last sequence they were read up to.

        Never a part of them: a read that stalls before the last sequence raises Unavailable. Raises
        StreamMissing.
        """
        state = await self._bus.stream_state(self.stream)
        if state is None:
            raise StreamMissing(f"bucket {self.name} does not exist")
        found: dict[str, Entry] = {}
        if state.messages == 0:
            return found, state.last_seq
        reader = await self._bus.read(self.stream, start_seq=max(1, state.first_seq))
        try:
            position = 0
            while position < state.last_seq:
                batch = await reader.next_batch(256, READ_S)
                if not batch:
                    raise Unavailable(f"bucket {self.name} could be read up to {position} only")
                for message in batch:
                    key = message.subject.removeprefix(self._prefix)
                    found.pop(key, None)
                    if not message.headers.get(_OPERATION):
                        found[key] = _entry(key, message)
                    position = message.sequence
        finally:
            await reader.close()
        return found, position


def _entry(key: str, message: Message) -> Entry:
    return Entry(key, message.data, message.sequence, message.headers)
