"""The resolver: asks what became of Prewrites that nobody closed (section 7, "Open Prewrites").

Off the hot path and in parallel. Committed: a Commit is appended; rolled back for good: a Rollback.
Undecided, or nobody answers: it waits, shown in status, however long.
"""

from __future__ import annotations

import msgspec
import structlog

from tidelog.actor import Actor, Ref
from tidelog.errors import ActorStopped, TidelogError
from tidelog.ports import Clock, IndexStore, TxnStatus
from tidelog_pump import payload
from tidelog_pump.index import Pointer, State
from tidelog_pump.indexer import look_up
from tidelog_pump.metrics import QUERIES
from tidelog_pump.segments import Segments
from tidelog_pump.sorter import OpenPrewrite
from tidelog_pump.sorter_actor import ListOpen, SorterMessage
from tidelog_pump.writer import Append, Outcome, WriterMessage

log = structlog.get_logger()

PARALLEL = 32
LOOKED_AT = 1024
KEY_BYTES = 64 << 10
PAUSE_S = (1.0, 15.0)
"""Between two questions about one transaction: first, and longest after doubling."""
COMMITTED, ROLLED_BACK = "committed", "rolled_back"


class Look(msgspec.Struct, frozen=True):
    """Look at the open Prewrites now, not at the next tick."""


class _Question(msgspec.Struct):
    """Asked when, how often, and what was the last answer."""

    next_s: float = 0.0
    pause_s: float = PAUSE_S[0]
    asked: int = 0
    running: bool = False
    answer: str = ""
    key: str = ""


class Resolver(Actor[Look]):
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

    async def on_batch(self, batch: list[Look]) -> None:
        if batch:
            await self._look()

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
            p.start_ts: self._questions.get(p.start_ts, _Question()) for p in waiting
        }
        now_s, now_ms = self._clock.monotonic(), self._clock.wall_ms()
        for prewrite in waiting:
            if self._running >= PARALLEL:
                return
            question = self._questions[prewrite.start_ts]
            if question.running or question.next_s > now_s:
                continue
            force = now_ms - prewrite.since_ms >= self._txn_timeout_s * 1000
            question.running = True
            self._running += 1
            self.spawn(self._resolve(prewrite, question, force=force), "question")

    async def _resolve(self, prewrite: OpenPrewrite, question: _Question, *, force: bool) -> None:
        try:
            await self._ask(prewrite.start_ts, question, force=force)
        except TidelogError as error:
            question.answer = type(error).__name__
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
        if verdict.state == COMMITTED and verdict.commit_ts > start_ts:
            await self._close(start_ts, verdict.commit_ts, key)
        elif verdict.state == ROLLED_BACK:
            await self._close(start_ts, 0, key)

    async def _close(self, start_ts: int, commit_ts: int, key: bytes) -> None:
        closing = payload.verdict(start_ts, commit_ts, key)
        outcomes: list[Outcome] = await self._writer.ask(
            lambda reply: Append(self._cluster_id, [closing], reply, own=True)
        )
        if outcomes[0] is not None:
            raise outcomes[0]
        self._verdicts[COMMITTED if commit_ts else ROLLED_BACK] += 1
        log.info("resolved a transaction", start_ts=start_ts, commit_ts=commit_ts)

    def _prewrite_key(self, start_ts: int) -> bytes | None:
        """From the record's first bytes; None while the index doesn't know the Prewrite."""
        known = look_up(self._store, start_ts)
        if known is None or known.state is not State.OPEN:
            return None
        place = known.place
        head = self._segments.read(
            Pointer(place.fid, place.offset), 0, min(place.length, KEY_BYTES)
        )
        return payload.prewrite_key(head)

    def status(self) -> dict[str, object]:
        unanswered = list(self._questions.items())[:16]
        return {
            "open_beyond_grace": len(self._questions),
            "asking": self._running,
            "verdicts": dict(self._verdicts),
            "oldest": [
                {"start_ts": ts, "asked": q.asked, "answer": q.answer, "key": q.key}
                for ts, q in unanswered
            ],
        }
