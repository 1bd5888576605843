"""The ways out of the process. Read this first.

Services do nothing to the world except through these protocols. `tidelog.real` implements them on
the machine, `tidelog.sim` in a seeded simulator; `tests/conformance` runs one suite on both.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import msgspec

if TYPE_CHECKING:
    from tidelog.downstream import Downstream, DownstreamOptions
    from tidelog.schema.model import DdlJob
    from tidelog.security.tls import TlsFiles
    from tidelog.upstream.rpc import Rpc

Buffer = bytes | bytearray | memoryview
Headers = Mapping[str, str]


class Clock(Protocol):
    """Wall and monotonic time. Time-outs use `asyncio.timeout`, which the simulator drives too."""

    def wall_ms(self) -> int: ...
    def monotonic(self) -> float: ...
    async def sleep(self, seconds: float) -> None: ...


class Rng(Protocol):
    """Randomness for jitter and ids; seeded in the simulator."""

    def random(self) -> float: ...
    def randbelow(self, bound: int) -> int: ...
    def token(self) -> str:
        """At least 64 bits of it, in hexadecimal digits."""


class File(Protocol):
    """One file open for appending and reading. After a failed write or sync it takes no more."""

    @property
    def size(self) -> int: ...
    async def append(self, chunks: Sequence[Buffer], *, sync: bool) -> int:
        """Append all chunks with one gathered write, then fdatasync if `sync`, off the loop.

        Returns the offset of the first byte. Raises IoFailed or DiskFull; the file is then
        poisoned and every later append raises IoFailed.
        """

    async def sync(self) -> None: ...
    def read(self, offset: int, length: int) -> bytes:
        """Up to `length` bytes; shorter only at the end of the file."""

    async def truncate(self, size: int) -> None:
        """Cut and fsync."""

    async def rewrite(self, start: int) -> None:
        """Write what stands from `start` on once more, and fsync. After a sync that failed the
        kernel may call pages clean that never got out: only so do they reach the disk."""

    def overwrite(self, data: bytes) -> None:
        """Write `data` at offset 0 without a sync: a hint that may be older after power loss."""

    def close(self) -> None: ...


class Lock(Protocol):
    def release(self) -> None: ...


class Disk(Protocol):
    """A node's data directory. Paths are relative to it, with `/`."""

    async def open(self, path: str, *, create: bool = False) -> File: ...
    def exists(self, path: str) -> bool: ...
    def listdir(self, path: str) -> list[str]:
        """Sorted names; empty if there is no such directory."""

    def mkdir(self, path: str) -> None:
        """With parents; no error if it exists. Durable once the directory above is synced."""

    def size(self, path: str) -> int: ...
    def read_file(self, path: str) -> bytes: ...
    async def write_file(self, path: str, data: bytes) -> None:
        """Replace atomically and durably: temporary file, fsync, rename, fsync of the directory."""

    async def remove(self, path: str) -> None: ...
    async def sync_dir(self, path: str) -> None: ...
    def free_bytes(self) -> int: ...
    def capacity_bytes(self) -> int:
        """Of the file system, used or not."""

    def lock(self, path: str) -> Lock:
        """Exclusive for this process. Raises DirectoryLocked, which names the holder."""


class IndexStore(Protocol):
    """An ordered map of bytes: derived data, unsynced, rebuilt from the log when behind."""

    def write(self, puts: Sequence[tuple[bytes, bytes]], deletes: Sequence[bytes] = ()) -> None: ...
    def get(self, key: bytes) -> bytes | None: ...
    def scan(self, start: bytes, stop: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        """Entries with start <= key < stop in key order, at most `limit`."""

    def delete_range(self, start: bytes, stop: bytes) -> None: ...
    def clear(self) -> None:
        """Delete everything, durably: no power loss brings any of it back."""

    def behind(self) -> bool:
        """Would a write now wait for the store's own work, and hold the process meanwhile?

        Raises IoFailed once a call of any method has failed: the next `open_index` says Corrupt.
        """

    def close(self) -> None:
        """Whole for the next `open_index`. Twice is no error; any other call then raises
        InvariantBroken, and does no harm. Raises IoFailed where a call failed before, or it can't
        be flushed: it is closed, and the next `open_index` does not trust it."""


class Message(msgspec.Struct, frozen=True, gc=False):
    """One message as it came: of a stream it has a sequence and a server time, else 0."""

    subject: str
    data: bytes
    headers: Headers = {}
    sequence: int = 0


class Outgoing(msgspec.Struct, frozen=True, gc=False):
    """One message to append to a stream. `ttl_s`: the server removes it so many whole seconds
    later, whoever is dead by then; 0 = it stays. Only where the stream allows it."""

    subject: str
    data: bytes
    headers: Headers = {}
    ttl_s: int = 0


class Request(Protocol):
    """A served request. `respond` never waits; at most one answer is sent. Of one above the bus's
    max_payload the asker gets the error, MessageTooLarge, as an ErrorReply."""

    @property
    def subject(self) -> str: ...
    @property
    def data(self) -> bytes: ...
    @property
    def headers(self) -> Headers: ...
    @property
    def wants_reply(self) -> bool: ...
    def respond(self, data: bytes, headers: Headers | None = None) -> None: ...


Handler = Callable[[Request], Awaitable[None]]


class Subscription(Protocol):
    async def close(self) -> None: ...


class StreamConfig(msgspec.Struct, frozen=True):
    """A stream to create. File storage, R1, atomic batches; discard old at the limits; 0 = none."""

    name: str
    subjects: tuple[str, ...]
    max_age_s: float = 0
    max_bytes: int = 0
    max_msgs_per_subject: int = 0
    allow_ttl: bool = False
    """Its messages may have a `ttl_s` of their own."""


class StreamState(msgspec.Struct, frozen=True):
    """What the stream's leader says. `created` changes when the stream is made anew."""

    created: str
    first_seq: int
    last_seq: int
    messages: int
    max_bytes: int = 0
    """What it may hold, beyond which the oldest is discarded; 0 = no limit."""


class StreamReader(Protocol):
    """Reads a stream in order from a sequence on, over server restarts; never skips silently.

    `next_batch` raises StreamMissing when the stream is gone or was recreated or rolled back
    below what was read, and Purged when the next sequence was discarded.
    """

    async def next_batch(self, max_messages: int, max_wait_s: float) -> list[Message]:
        """What is there, in order, at least one message; empty after `max_wait_s` without any."""

    async def close(self) -> None: ...


class Bus(Protocol):
    """Subjects between services, and the streams behind them (NATS core and JetStream).

    Connection loss is waited out: every call has a deadline and ends with Unavailable.
    """

    async def publish(self, subject: str, data: bytes, headers: Headers | None = None) -> None:
        """Fire and forget."""

    async def request(
        self, subject: str, data: bytes, *, timeout_s: float, headers: Headers | None = None
    ) -> Message:
        """Raises NoResponders (definite), DeadlineExceeded, MessageTooLarge, Unavailable."""

    async def serve(self, subject: str, handler: Handler, *, queue: str = "") -> Subscription:
        """Call `handler` for each message in order of arrival; it waits (back-pressure) but must
        not wait for the reply's content: it hands the request to an actor, which responds."""

    async def stream_create(self, config: StreamConfig) -> StreamState:
        """Create, or do nothing if it exists."""

    async def stream_state(self, name: str) -> StreamState | None:
        """From the stream's leader, never a direct get; None if there is no such stream."""

    async def stream_delete(self, name: str) -> None: ...
    async def append(
        self,
        stream: str,
        messages: Sequence[Outgoing],
        *,
        expected_last_seq: int | None = None,
        expected_last_subject_seq: int | None = None,
        timeout_s: float = 10.0,
    ) -> int:
        """Append all or nothing (an atomic batch, <= 1000 messages); returns the last sequence.

        Durable when it returns. Raises Conflict (definite) if an expectation fails, StreamMissing,
        MessageTooLarge, BadInput (a `ttl_s` where the stream allows none), StreamFull, or another
        Unavailable (unknown: read the tail before trying again).
        """

    async def last_message(self, stream: str, subject: str) -> Message | None:
        """The newest message whose subject matches, from the leader. Raises StreamMissing."""

    async def read(
        self, stream: str, *, start_seq: int, subjects: tuple[str, ...] = ()
    ) -> StreamReader: ...
    @property
    def max_payload(self) -> int: ...
    @property
    def connected(self) -> bool: ...
    async def close(self) -> None: ...


class Process(Protocol):
    """A child process of ours; nobody else's is ever signalled."""

    @property
    def pid(self) -> int: ...
    @property
    def returncode(self) -> int | None: ...
    async def wait(self) -> int: ...
    def terminate(self) -> None: ...
    def kill(self) -> None: ...


class Processes(Protocol):
    async def start(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        log_path: str = "",
        out_path: str = "",
    ) -> Process:
        """`env` is added to ours. Output is appended to `log_path`, else dropped; with `out_path`
        only standard error is, and standard output is that file, made anew. Raises ConfigError
        when the program can't be started."""


class Oracle(Protocol):
    """Who allocates timestamps (I9)."""

    async def fresh(self, at_least: int) -> int:
        """Allocated now; the caller checks it against `at_least`. Raises Unavailable."""


class TxnStatus(Protocol):
    """What became of a transaction whose Commit has not arrived."""

    async def verdict(self, start_ts: int, prewrite_key: bytes, *, force: bool) -> Verdict: ...


class Verdict(msgspec.Struct, frozen=True):
    """`state` is "committed" (with commit_ts), "rolled_back" (for good) or "undecided"."""

    state: str
    commit_ts: int = 0


class DdlHistory(Protocol):
    """The upstream's DDL jobs."""

    def jobs(self, after_job_id: int) -> AsyncIterator[list[DdlJob]]:
        """Pages of jobs with id > after_job_id, in rising order of ids. Raises Unavailable."""


@dataclass(frozen=True)
class Ports:
    """Everything a service is built on; one value a node."""

    clock: Clock
    rng: Rng
    disk: Disk
    bus: Bus
    open_index: Callable[[str], IndexStore]
    """Raises Corrupt when what is stored can't be opened, DiskFull when there is no room to."""
    drop_index: Callable[[str], None]
    """Delete one that is not open, so that `open_index` makes it anew; none there is no error."""
    open_downstream: Callable[[DownstreamOptions], Downstream]
    open_ddl_history: Callable[[str, TlsFiles], DdlHistory]
    open_rpc: Callable[[TlsFiles], Rpc]
    """How the servers of a TiDB cluster are called. Raises ConfigError."""
    within: Callable[[str], Ports]
    """The same on a directory of `disk`, made when missing: its disk and its indexes lie there."""
