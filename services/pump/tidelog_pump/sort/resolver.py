"""The resolver: asks what became of Prewrites that nobody closed (section 7, "Open Prewrites").

Off the hot path and in parallel. Committed: a Commit is appended; rolled back for good: a Rollback.
Undecided, or nobody answers: it waits, shown in status, however long.
"""

from __future__ import annotations

from itertools import islice

import msgspec
import structlog

from tidelog import payload
from tidelog.actor import Actor, Ref, Reply
from tidelog.errors import ActorStopped, Purged
from tidelog.failpoints import hit
from tidelog.ports import Clock, IndexStore, TxnStatus
from tidelog.timestamps import TS_MAX, age_s
from tidelog_pump.index.indexer import look_up
from tidelog_pump.index.keys import State
from tidelog_pump.log.place import Place, Pointer
from tidelog_pump.log.segments import Segments
from tidelog_pump.metrics import QUERIES
from tidelog_pump.sort.sorter import OpenPrewrite
from tidelog_pump.sort.sorter_actor import ListOpen, SorterMessage
from tidelog_pump.unforeseen import typed
from tidelog_pump.write.writer import Append, Outcome, WriterMessage

log = structlog.get_logger()

PARALLEL = 32
SHOWN = 16
LOOKED_AT = 1024
KEY_BYTES = 64 << 10
PAUSE_S = (1.0, 15.0)
"""Between two questions about one transaction: first, and longest after doubling."""
COMMITTED, ROLLED_BACK = "committed", "rolled_back"


class Look(msgspec.Struct, frozen=True):
    """Look at the open Prewrites now, not at the next tick."""


class Waiting(msgspec.Struct, frozen=True):
    """An open Prewrite that was asked about; `key` in hex, `answer` the last one. `age_s` goes by
    its start_ts, over restarts; `watched_s` is what `txn-timeout-s` is compared with."""

    start_ts: int
    age_s: float
    watched_s: float
    asked: int
    answer: str
    key: str


class ReadWaiting(msgspec.Struct, frozen=True):
    """The oldest open Prewrites that nobody closed so far."""

    limit: int
    reply: Reply[list[Waiting]]


ResolverMessage = Look | ReadWaiting


class _Question(msgspec.Struct):
    """Asked when, how often, and what was the last answer."""

    next_s: float = 0.0
    pause_s: float = PAUSE_S[0]
    since_s: float = 0.0
    asked: int = 0
    running: bool = False
    answer: str = ""
    key: str = ""


class Resolver(Actor[ResolverMessage]):
    tick_s = 0.25

    def __init__(
        self,
        clock: Clock,
        segments: Segments,
        store: IndexStore,
        txn_status: TxnStatus,
        sorter: Ref[SorterMessage],
        writer: Ref[WriterMessage],
        *,
        cluster_id: int,
        resolve_after_s: float,
        txn_timeout_s: float,
    ) -> None:
        self._clock = clock
        self._segments = segments
        self._store = store
        self._txn_status = txn_status
        self._sorter = sorter
        self._writer = writer
        self._cluster_id = cluster_id
        self._resolve_after_s = resolve_after_s
        self._txn_timeout_s = txn_timeout_s
        self._questions: dict[int, _Question] = {}
        self._running = 0
        self._verdicts = {COMMITTED: 0, ROLLED_BACK: 0}

    async def on_batch(self, batch: list[ResolverMessage]) -> None:
        for message in batch:
            match message:
                case Look():
                    await self._look()
                case ReadWaiting():
                    message.reply.set(self._waiting(message.limit))

    async def on_tick(self) -> None:
        await self._look()

    async def _look(self) -> None:
        try:
            waiting: list[OpenPrewrite] = await self._sorter.ask(
                lambda reply: ListOpen(self._resolve_after_s, LOOKED_AT, reply)
            )
        except ActorStopped:
            return  # The supervisor is about to start all of us anew.
        self._questions = {
            p.start_ts: self._questions.get(p.start_ts, _Question(since_s=p.since_s))
            for p in waiting
        }
        now_s = self._clock.monotonic()
        for prewrite in waiting:
            if self._running >= PARALLEL:
                return
            question = self._questions[prewrite.start_ts]
            if question.running or question.next_s > now_s:
                continue
            # By our own watching, anew after a restart: start_ts and the wall clock are what
            # others say, and a verdict forced on a transaction under way can't be taken back.
            force = now_s - prewrite.since_s >= self._txn_timeout_s
            question.running = True
            self._running += 1
            self.spawn(self._resolve(prewrite, question, force=force), "question")

    async def _resolve(self, prewrite: OpenPrewrite, question: _Question, *, force: bool) -> None:
        try:
            await self._ask(prewrite.start_ts, question, force=force)
        except Exception as raised:  # noqa: BLE001 (what an answer may cost is its question)
            error = typed(raised, "resolver")
            question.answer = f"{type(error).__name__}: {error.message}"
        finally:
            self._running -= 1
            question.running = False
            question.next_s = self._clock.monotonic() + question.pause_s
            question.pause_s = min(question.pause_s * 2, PAUSE_S[1])

    async def _ask(self, start_ts: int, question: _Question, *, force: bool) -> None:
        key = self._prewrite_key(start_ts)
        if key is None:
            question.answer = "not indexed yet"
            return
        question.key = key.hex()
        question.asked += 1
        QUERIES.inc()
        verdict = await self._txn_status.verdict(start_ts, key, force=force)
        question.answer = verdict.state
        if verdict.state == COMMITTED and verdict.commit_ts <= start_ts:
            question.answer = f"committed at {verdict.commit_ts}, not above start_ts"
        elif verdict.state == COMMITTED and verdict.commit_ts > TS_MAX:
            question.answer = f"committed at {verdict.commit_ts}, which is no timestamp"
        elif verdict.state == COMMITTED:
            await self._close(start_ts, verdict.commit_ts, key)
        elif verdict.state == ROLLED_BACK:
            await self._close(start_ts, 0, key)

    async def _close(self, start_ts: int, commit_ts: int, key: bytes) -> None:
        hit("pump.resolver.before_verdict")
        closing = payload.verdict(start_ts, commit_ts, key)
        outcomes: list[Outcome] = await self._writer.ask(
            lambda reply: Append(self._cluster_id, [closing], reply, own=True)
        )
        if outcomes[0] is not None:
            raise outcomes[0]
        hit("pump.resolver.verdict_appended")
        self._verdicts[COMMITTED if commit_ts else ROLLED_BACK] += 1
        log.info("resolved a transaction", start_ts=start_ts, commit_ts=commit_ts)

    def _prewrite_key(self, start_ts: int) -> bytes | None:
        """None while the index doesn't know the Prewrite."""
        known = look_up(self._store, start_ts)
        if known is None or known.state is not State.OPEN:
            return None
        return key_of(self._segments, known.place)

    def _waiting(self, limit: int) -> list[Waiting]:
        now_s, now_ms = self._clock.monotonic(), self._clock.wall_ms()
        return [
            Waiting(ts, age_s(ts, now_ms), round(now_s - q.since_s, 1), q.asked, q.answer, q.key)
            for ts, q in islice(self._questions.items(), limit)
        ]

    def status(self) -> dict[str, object]:
        return {
            "open_beyond_grace": len(self._questions),
            "asking": self._running,
            "verdicts": dict(self._verdicts),
            "oldest": [msgspec.to_builtins(waiting) for waiting in self._waiting(SHOWN)],
        }


def key_of(segments: Segments, place: Place) -> bytes:
    """A Prewrite's prewrite_key, from its record's first bytes; b"" of one that gc-hard-cap has
    just taken: whoever asks goes by the start_ts alone."""
    pointer = Pointer(place.fid, place.offset)
    try:
        return payload.prewrite_key(segments.read(pointer, 0, min(place.length, KEY_BYTES)))
    except Purged:
        return b""
