"""A key-value bucket on a stream, as NATS lays it out (`KV_<bucket>`, `$KV.<bucket>.<key>`).

Over the Bus port, so that the same code runs on the server and in the simulator, and the `nats kv`
command reads it. Every read goes to the leader.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from tidelog.errors import StreamMissing, Unavailable
from tidelog.ports import Bus, Headers, Message, Outgoing, StreamConfig, StreamState
from tidelog.subjects import bucket_stream

_OPERATION = "KV-Operation"
READ_S = 5.0
"""How long a bucket that has more to give may be silent."""
LEASED_READ_S = 1.0
"""The same where what it had to give may have ended meanwhile."""
READ_ROUNDS = 64
"""How often what is put meanwhile is read, too, before a bucket counts as changing all the time."""
WRITE_S = 10.0
"""How long an answer is waited for."""


class Entry(msgspec.Struct, frozen=True):
    key: str
    value: bytes
    revision: int
    headers: Headers = {}


class Bucket:
    """`leased`: its entries may end by themselves, see `put_all`."""

    def __init__(self, bus: Bus, name: str, *, leased: bool = False) -> None:
        self.name = name
        self._leased = leased
        self.stream = bucket_stream(name)
        self._bus = bus
        self._prefix = f"$KV.{name}."

    async def create(self) -> StreamState:
        """Create if missing; the state tells by `created` whether it is the one known."""
        return await self._bus.stream_create(
            StreamConfig(
                self.stream,
                (f"{self._prefix}>",),
                max_msgs_per_subject=1,
                allow_ttl=self._leased,
            )
        )

    async def state(self) -> StreamState | None:
        return await self._bus.stream_state(self.stream)

    async def get(self, key: str) -> Entry | None:
        """Raises StreamMissing."""
        return (await self.read(key))[0]

    async def read(self, key: str) -> tuple[Entry | None, int]:
        """What stands there, and the revision that a write replaces: of what was deleted the
        marker's, 0 = there was never anything. Raises StreamMissing."""
        message = await self.last(key)
        if message is None:
            return None, 0
        deleted = bool(message.headers.get(_OPERATION))
        return None if deleted else _entry(key, message), message.sequence

    async def read_or_create(self, key: str) -> tuple[Entry | None, int]:
        """As `read`; where the bucket is missing it is made, and nothing stands there."""
        try:
            return await self.read(key)
        except StreamMissing:
            await self.create()
            return None, 0

    async def last(self, key: str) -> Message | None:
        """The newest message of the key, be it a deletion's marker. Raises StreamMissing."""
        return await self._bus.last_message(self.stream, self._prefix + key)

    async def put(
        self,
        key: str,
        value: bytes,
        *,
        expected: int | None = None,
        expected_last: int | None = None,
        headers: Headers | None = None,
        timeout_s: float = WRITE_S,
    ) -> int:
        """Returns the revision. `expected`: the revision it replaces, 0 = none; `expected_last`:
        the bucket's last sequence before it. Raises Conflict."""
        return await self._bus.append(
            self.stream,
            [Outgoing(self._prefix + key, value, headers or {})],
            expected_last_seq=expected_last,
            expected_last_subject_seq=expected,
            timeout_s=timeout_s,
        )

    async def put_all(
        self,
        values: Mapping[str, bytes],
        *,
        ttl_s: int = 0,
        expected_last: int | None = None,
        timeout_s: float = WRITE_S,
    ) -> int:
        """Put 1 to 1000 entries at once. Each ends `ttl_s` later unless put again; 0: it stays.

        Returns the bucket's last sequence. `expected_last`: the one it replaces. Raises Conflict.
        """
        return await self._bus.append(
            self.stream,
            [Outgoing(self._prefix + key, value, {}, ttl_s) for key, value in values.items()],
            expected_last_seq=expected_last,
            timeout_s=timeout_s,
        )

    async def delete(
        self,
        key: str,
        *,
        expected: int | None = None,
        expected_last: int | None = None,
        headers: Headers | None = None,
        timeout_s: float = WRITE_S,
    ) -> int:
        """Leaves a marker in the key's place, whether there was anything or not."""
        return await self._bus.append(
            self.stream,
            [Outgoing(self._prefix + key, b"", {**(headers or {}), _OPERATION: "DEL"})],
            expected_last_seq=expected_last,
            expected_last_subject_seq=expected,
            timeout_s=timeout_s,
        )

    async def entries(self) -> tuple[dict[str, Entry], int]:
        """All living entries, and the last sequence they were read up to.

        Never a part of them: a read that stalls before the last sequence raises Unavailable, and
        what is put again meanwhile, so that it is no more where it stood, is read where it stands
        now. Raises StreamMissing.
        """
        state = await self._bus.stream_state(self.stream)
        if state is None:
            raise StreamMissing(f"bucket {self.name} does not exist")
        found: dict[str, Entry] = {}
        if state.messages == 0:
            return found, state.last_seq
        reader = await self._bus.read(self.stream, start_seq=max(1, state.first_seq))
        try:
            position, end, rounds = 0, await self._end(state), 0
            while position < end:
                batch = await reader.next_batch(256, LEASED_READ_S if self._leased else READ_S)
                if not batch:
                    before, end = end, await self._newest() if self._leased else end
                    if end < before:
                        continue
                    raise Unavailable(f"bucket {self.name} could be read up to {position} only")
                for message in batch:
                    key = message.subject.removeprefix(self._prefix)
                    found.pop(key, None)
                    if not message.headers.get(_OPERATION):
                        found[key] = _entry(key, message)
                    position = message.sequence
                if position >= end:
                    rounds += 1
                    if rounds > READ_ROUNDS:
                        raise Unavailable(f"bucket {self.name} changes all the time")
                    end = await self._newest()
        finally:
            await reader.close()
        return found, position

    async def _end(self, state: StreamState) -> int:
        """The sequence to read up to. Of a leased bucket the last one may be there no more."""
        if not self._leased:
            return state.last_seq
        return await self._newest()

    async def _newest(self) -> int:
        newest = await self._bus.last_message(self.stream, f"{self._prefix}>")
        return 0 if newest is None else newest.sequence


def _entry(key: str, message: Message) -> Entry:
    return Entry(key, message.data, message.sequence, message.headers)
