"""JetStream streams as the simulated server keeps them (pure).

Atomic batches with fences, limits that discard the oldest, at most n messages a subject. What the
server refuses is raised; nothing is half done.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf

from tidelog.changes import BATCH_MESSAGES
from tidelog.errors import BadInput, Conflict, MessageTooLarge, StreamFull, StreamMissing
from tidelog.ports import Message, Outgoing, StreamConfig, StreamState

MAX_PAYLOAD = 1 << 20


def matches(pattern: str, subject: str) -> bool:
    """Does a subject match a pattern with `*` (one token) and a final `>` (one or more)?"""
    if pattern == subject:
        return True
    if "*" not in pattern and not pattern.endswith(">"):
        return False
    wanted, given = pattern.split("."), subject.split(".")
    for place, part in enumerate(wanted):
        if part == ">":
            return len(given) > place
        if place >= len(given) or part not in ("*", given[place]):
            return False
    return len(wanted) == len(given)


def message_bytes(data: bytes, headers: object) -> int:
    size = len(data)
    if isinstance(headers, dict):
        size += sum(len(k) + len(v) + 4 for k, v in headers.items())
    return size


@dataclass
class Stored:
    message: Message
    at_s: float
    until_s: float = inf


@dataclass
class SimStream:
    """One stream. `slots` holds sequence `base` + i at i, None where a message was superseded."""

    config: StreamConfig
    created: str
    base: int = 1
    slots: list[Stored | None] = field(default_factory=list)
    bytes: int = 0
    messages: int = 0
    by_subject: dict[str, list[int]] = field(default_factory=dict)
    """Sequences of each subject's messages, oldest first."""
    next_ttl_s: float = inf
    """No message's own time ends before."""
    full: bool = False
    """The server has no room for more."""

    @property
    def last_seq(self) -> int:
        return self.base + len(self.slots) - 1

    @property
    def first_seq(self) -> int:
        return self.base

    def state(self) -> StreamState:
        return StreamState(
            self.created, self.first_seq, self.last_seq, self.messages, self.config.max_bytes
        )

    def append(
        self,
        messages: Sequence[Outgoing],
        expected_last_seq: int | None,
        expected_last_subject_seq: int | None,
        now: float,
    ) -> int:
        """All or nothing. Raises Conflict, MessageTooLarge, StreamMissing (foreign subject)."""
        self.check(messages)
        if expected_last_seq is not None and expected_last_seq != self.last_seq:
            raise Conflict(f"{self.config.name} ends at {self.last_seq}, not {expected_last_seq}")
        if expected_last_subject_seq is not None:
            last = self._last_of(messages[0].subject)
            if last != expected_last_subject_seq:
                raise Conflict(f"{messages[0].subject} is at {last}")
        if self.full:
            raise StreamFull(f"{self.config.name}: maximum bytes exceeded")
        for message in messages:
            self._push(message, now)
        self.expire(now)
        return self.last_seq

    def check(self, messages: Sequence[Outgoing]) -> None:
        if not 0 < len(messages) <= BATCH_MESSAGES:
            raise BadInput(
                f"a batch of {len(messages)} messages; 1 to {BATCH_MESSAGES} are possible"
            )
        for message in messages:
            if message_bytes(message.data, message.headers) > MAX_PAYLOAD:
                raise MessageTooLarge(f"{len(message.data)} bytes for {message.subject}")
            if not any(matches(p, message.subject) for p in self.config.subjects):
                raise StreamMissing(f"{message.subject} is no subject of {self.config.name}")
            if message.ttl_s and not self.config.allow_ttl:
                raise BadInput(f"{self.config.name} takes no message with a time of its own")

    def last_message(self, pattern: str) -> Message | None:
        if pattern in self.by_subject:
            return self.at(self._last_of(pattern))
        newest = max(
            (seqs[-1] for subject, seqs in self.by_subject.items() if matches(pattern, subject)),
            default=0,
        )
        return self.at(newest)

    def take(
        self, position: int, patterns: tuple[str, ...], max_messages: int
    ) -> tuple[list[Message], int]:
        """Messages from `position` on that match, and the position after the last one looked at."""
        found: list[Message] = []
        index = max(0, position - self.base)
        while index < len(self.slots) and len(found) < max_messages:
            stored = self.slots[index]
            index += 1
            if stored is None:
                continue
            if not patterns or any(matches(p, stored.message.subject) for p in patterns):
                found.append(stored.message)
        return found, max(position, self.base + index)

    def expire(self, now: float) -> None:
        """Discard what is over its own time, and the oldest beyond the limits of age and size."""
        if now >= self.next_ttl_s:
            self._end_leases(now)
        limit, age = self.config.max_bytes, self.config.max_age_s
        while self.slots and (
            (limit and self.bytes > limit)
            or (age and self.slots[0] is not None and now - self.slots[0].at_s > age)
            or self.slots[0] is None
        ):
            self._drop(self.base)

    def _end_leases(self, now: float) -> None:
        living = [s for s in self.slots if s is not None]
        for stored in living:
            if now >= stored.until_s:
                self._drop(stored.message.sequence)
        self.next_ttl_s = min((s.until_s for s in living if now < s.until_s), default=inf)

    def discard_below(self, sequence: int) -> None:
        """What retention does, on demand."""
        while self.slots and self.base < sequence:
            self._drop(self.base)

    def copy(self) -> SimStream:
        return SimStream(
            self.config,
            self.created,
            self.base,
            list(self.slots),
            self.bytes,
            self.messages,
            {subject: list(seqs) for subject, seqs in self.by_subject.items()},
            self.next_ttl_s,
        )

    def _push(self, outgoing: Outgoing, now: float) -> None:
        sequence = self.last_seq + 1
        message = Message(outgoing.subject, bytes(outgoing.data), dict(outgoing.headers), sequence)
        until = now + outgoing.ttl_s if outgoing.ttl_s else inf
        self.next_ttl_s = min(self.next_ttl_s, until)
        self.slots.append(Stored(message, now, until))
        self.bytes += message_bytes(message.data, message.headers)
        self.messages += 1
        sequences = self.by_subject.setdefault(message.subject, [])
        sequences.append(sequence)
        keep = self.config.max_msgs_per_subject
        while keep and len(sequences) > keep:
            self._drop(sequences[0])

    def _drop(self, sequence: int) -> None:
        stored = self.slots[sequence - self.base]
        if stored is not None:
            message = stored.message
            self.slots[sequence - self.base] = None
            self.bytes -= message_bytes(message.data, message.headers)
            self.messages -= 1
            sequences = self.by_subject[message.subject]
            sequences.remove(sequence)
            if not sequences:
                del self.by_subject[message.subject]
        gone = 0
        while gone < len(self.slots) and self.slots[gone] is None:
            gone += 1
        if gone:
            del self.slots[:gone]
            self.base += gone

    def _last_of(self, subject: str) -> int:
        sequences = self.by_subject.get(subject)
        return sequences[-1] if sequences else 0

    def at(self, sequence: int) -> Message | None:
        """The message at a sequence; None if it is not stored."""
        index = sequence - self.base
        stored = self.slots[index] if 0 <= index < len(self.slots) else None
        return None if stored is None else stored.message
