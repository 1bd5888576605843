"""The sorter as an actor: what the writer and the indexer report, who waits for resolved_ts.

Everything that moves W comes through this mailbox, the oracle's answers too: a Prewrite is told
before its ack, so whatever was allocated after the ack comes after it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import islice

import msgspec
import structlog

from tidelog.actor import Actor, Reply
from tidelog.errors import TidelogError
from tidelog.failpoints import hit
from tidelog.ports import Clock, Oracle, Rng
from tidelog.timestamps import age_s, physical_ms
from tidelog_pump.log.place import Pointer
from tidelog_pump.log.promised import Promise, PromisedFile
from tidelog_pump.metrics import NOTED, OWN, Gauges
from tidelog_pump.sort.high_ts import HighTs
from tidelog_pump.sort.sorter import OpenPrewrite, Sorter

log = structlog.get_logger()

RETRY_S = (0.05, 1.0)
LATE_KEPT = 4096
"""Late copies that the verifier has not taken yet."""


class Recovered(msgspec.Struct, frozen=True):
    """The indexer read the log to its end: W there, the largest commit_ts that can be read, the
    open (start_ts, bound), and which (start_ts, commit_ts) it read came too late for readers of an
    earlier run."""

    high_ts: int
    max_commit_ts: int
    opened: list[tuple[int, int]]
    end: Pointer
    late: list[tuple[int, int]] = []


class Entered(msgspec.Struct, frozen=True):
    """Prewrites are about to be written; told before their ack."""

    start_ts: list[int]


class Indexed(msgspec.Struct, frozen=True):
    """(start_ts, commit_ts or 0) whose end is synced and readable. Of what the chaser read: the
    Prewrites (start_ts, bound) that are open now. `high_ts`: W in log order there. `end`:
    everything before it is indexed; None = as before."""

    closed: list[tuple[int, int]]
    opened: list[tuple[int, int]] = []
    high_ts: int = 0
    end: Pointer | None = None


class Cap(msgspec.Struct, frozen=True):
    """The chaser takes over: the writer enters nothing of what it writes from now on."""


class CaughtUp(msgspec.Struct, frozen=True):
    """All that was readable when W was `high_ts` is indexed. `off`: the writer enters again."""

    high_ts: int
    off: bool


class Answered(msgspec.Struct, frozen=True):
    """The oracle allocated `ts`; it was asked because of `asked`."""

    ts: int
    asked: int


class Allocated(msgspec.Struct, frozen=True):
    """The oracle allocated `ts` for a fake: nobody's claim is answered."""

    ts: int


class Resolved(msgspec.Struct, frozen=True):
    """resolved_ts, W, and the largest commit_ts stored; how many Prewrites are open. `chased`: the
    chaser is on, so more may be open than the sorter was told of. `unanswered`: why the oracle,
    which is asked, has not moved W yet."""

    resolved_ts: int
    high_ts: int
    max_commit_ts: int
    open: int = 0
    chased: bool = False
    unanswered: str = ""


class AwaitResolved(msgspec.Struct, frozen=True):
    """Answer when resolved_ts > `above`; `want_ts`: a timestamp somebody saw (0 = none). `read`: a
    reader has read up to it here (0 = unknown)."""

    above: int
    want_ts: int
    reply: Reply[Resolved]
    read: int = 0


class HasRead(msgspec.Struct, frozen=True):
    """A reader that was served in an earlier run had read up to `ts` here."""

    ts: int


class ListOpen(msgspec.Struct, frozen=True):
    """Open Prewrites that have waited at least `age_s`, oldest first."""

    age_s: float
    limit: int
    reply: Reply[list[OpenPrewrite]]


class ReadOpen(msgspec.Struct, frozen=True):
    """This Prewrite, if it is open."""

    start_ts: int
    reply: Reply[OpenPrewrite | None]


class Late(msgspec.Struct, frozen=True):
    """The `number`th first Commit at or below what was promised: a second copy of what another
    Pump has, most likely; the verifier asks the others (I2)."""

    number: int
    start_ts: int
    commit_ts: int


class AwaitLate(msgspec.Struct, frozen=True):
    """Those with a larger number, once there is one. Up to `taken` they are in the index."""

    taken: int
    reply: Reply[list[Late]]


SorterMessage = (
    Recovered
    | Entered
    | Indexed
    | Cap
    | CaughtUp
    | Answered
    | Allocated
    | AwaitResolved
    | HasRead
    | ListOpen
    | ReadOpen
    | AwaitLate
)


class SorterActor(Actor[SorterMessage]):
    """`locate` says where the record of a start_ts lies, (segment, offset)."""

    batch_count = 256

    def __init__(
        self,
        clock: Clock,
        rng: Rng,
        oracle: Oracle | None,
        promised: PromisedFile,
        *,
        clock_skew_s: float,
        locate: Callable[[int], tuple[int, int] | None],
        gauges: Gauges = OWN,
    ) -> None:
        self._clock = clock
        self._rng = rng
        self._oracle = oracle
        high = HighTs(follow=oracle is None, skew_ms=int(clock_skew_s * 1000))
        self._sorter = Sorter(high)
        self._promised = promised
        self._indexed: Pointer | None = None
        self._waiters: list[AwaitResolved] = []
        self._asking = False
        self._unanswered = ""
        self._locate = locate
        self._gauges = gauges
        self._late: deque[Late] = deque()
        self._late_lost = 0
        self._awaits_late: AwaitLate | None = None

    async def on_start(self) -> None:
        await self._promised.load()
        self._sorter.floor = self._promised.now.ts

    async def on_stop(self) -> None:
        await self._promised.close()

    def weigh(self, message: SorterMessage) -> int:
        match message:
            case Recovered():
                return 64 + 32 * (len(message.opened) + len(message.late))
            case Entered():
                return 64 + 16 * len(message.start_ts)
            case Indexed():
                return 64 + 32 * (len(message.closed) + len(message.opened))
            case _:
                return 128

    async def on_batch(self, batch: list[SorterMessage]) -> None:
        now_ms, now_s = self._clock.wall_ms(), self._clock.monotonic()
        repeated, refused = self._sorter.repeated, self._sorter.high.refused
        for message in batch:
            self._handle(message, now_ms, now_s)
        NOTED.labels("repeated_prewrite").inc(self._sorter.repeated - repeated)
        NOTED.labels("refused_ts").inc(self._sorter.high.refused - refused)
        if self._sorter.advance():
            self._gauges.max_commit_ts.set(physical_ms(self._sorter.resolved))
        hit("pump.sorter.before_promise")
        if self._indexed is not None:
            self._promised.note(Promise(self._sorter.promised, self._indexed))
        hit("pump.sorter.promised")
        self._wake()
        self._hand_over_late()
        self._ask_oracle()

    def _handle(self, message: SorterMessage, now_ms: int, now_s: float) -> None:
        sorter = self._sorter
        match message:
            case Entered():
                for start_ts in message.start_ts:
                    sorter.enter(start_ts, now_ms, now_s)
            case Indexed():
                self._take_indexed(message, now_ms, now_s)
            case AwaitResolved():
                if message.want_ts:
                    sorter.high.claim(message.want_ts, now_ms)
                if message.read > sorter.promised:
                    sorter.has_read(message.read, now_ms)
                self._waiters.append(message)
            case HasRead():
                sorter.has_read(message.ts, now_ms)
            case Cap():
                sorter.set_cap()
            case CaughtUp():
                sorter.raise_cap(message.high_ts)
                sorter.cap = None if message.off else sorter.cap
            case Answered():
                sorter.high.answer(message.ts, message.asked)
                self._asking = False
                self._unanswered = ""
            case Allocated():
                sorter.high.answer(message.ts, 0)
            case ListOpen() | ReadOpen() | AwaitLate():
                self._look(message, now_s)
            case Recovered():
                self._recover(message, now_s)

    def _recover(self, message: Recovered, now_s: float) -> None:
        sorter = self._sorter
        sorter.reset(message.high_ts, message.opened, now_s)
        sorter.max_commit_ts = max(sorter.max_commit_ts, message.max_commit_ts)
        # Nothing vouches for W yet: ask the oracle once at start.
        sorter.high.wanted = max(sorter.high.wanted, 1) if self._oracle else 0
        self._indexed = message.end
        for start_ts, commit_ts in message.late:
            sorter.late += 1
            self._note_late(start_ts, commit_ts)

    def _take_indexed(self, message: Indexed, now_ms: int, now_s: float) -> None:
        sorter = self._sorter
        if message.end is not None:
            # Of what is indexed each timestamp was believed, or refused, by the clock as it came.
            sorter.high.indexed(message.high_ts)
            now_ms = 0
        for start_ts, bound in message.opened:
            sorter.enter_chased(start_ts, bound, now_ms, now_s)
        sorter.raise_cap(message.high_ts)
        for start_ts, commit_ts in message.closed:
            if not sorter.close(start_ts, commit_ts, now_ms):
                self._note_late(start_ts, commit_ts)
        self._indexed = message.end or self._indexed

    def _look(self, message: ListOpen | ReadOpen | AwaitLate, now_s: float) -> None:
        match message:
            case ListOpen():
                waiting = self._sorter.waiting_since(now_s - message.age_s)
                message.reply.set(list(islice(waiting, message.limit)))
            case ReadOpen():
                message.reply.set(self._sorter.opened(message.start_ts))
            case AwaitLate():
                while self._late and self._late[0].number <= message.taken:
                    self._late.popleft()
                self._awaits_late = message

    def _note_late(self, start_ts: int, commit_ts: int) -> None:
        NOTED.labels("late_copy").inc()
        self._late.append(Late(self._sorter.late, start_ts, commit_ts))
        if len(self._late) > LATE_KEPT:
            self._late.popleft()
            self._late_lost += 1
            NOTED.labels("late_copy_not_verified").inc()
        log.warning(
            "a Commit came at or below what was promised, unverified whether another Pump has it",
            start_ts=start_ts,
            commit_ts=commit_ts,
            at=self._locate(start_ts),
            promised=self._sorter.promised,
        )

    def _hand_over_late(self) -> None:
        waiter = self._awaits_late
        if waiter is not None and self._late:
            waiter.reply.set(list(self._late))
            self._awaits_late = None

    def _resolved(self) -> Resolved:
        sorter = self._sorter
        chased = sorter.cap is not None
        now = (sorter.resolved, sorter.high.value, sorter.max_commit_ts, len(sorter), chased)
        return Resolved(*now, self._unanswered)

    def _wake(self) -> None:
        if not self._waiters:
            return
        answer, still = self._resolved(), []
        for waiter in self._waiters:
            if answer.resolved_ts > waiter.above:
                waiter.reply.set(answer)
            elif not waiter.reply.settled:
                still.append(waiter)
        self._waiters = still

    def _ask_oracle(self) -> None:
        wanted = self._sorter.high.wanted
        if self._oracle is not None and wanted and not self._asking:
            self._asking = True
            self.spawn(self._fresh(self._oracle, wanted), "oracle")

    async def _fresh(self, oracle: Oracle, wanted: int) -> None:
        """One question for everything that was claimed since the last one."""
        pause = RETRY_S[0]
        while True:
            try:
                answer = await oracle.fresh(wanted)
                break
            except TidelogError as error:
                self._unanswered = error.message
                log.warning("the oracle does not answer", error=str(error), wanted=wanted)
            await self._clock.sleep(pause * (0.5 + self._rng.random()))
            pause = min(pause * 2, RETRY_S[1])
        await self.self_ref.tell(Answered(answer, wanted))

    def status(self) -> dict[str, object]:
        sorter = self._sorter
        oldest = sorter.oldest()
        return {
            "resolved_ts": sorter.resolved,
            "promised": sorter.promised,
            "high_ts": sorter.high.value,
            "max_commit_ts": sorter.max_commit_ts,
            "cap": sorter.cap,
            "open": len(sorter),
            "oldest_open": None
            if oldest is None
            else {
                "start_ts": oldest.start_ts,
                "age_s": age_s(oldest.start_ts, self._clock.wall_ms()),
                "watched_s": self._clock.monotonic() - oldest.since_s,
            },
            "late_copies": sorter.late,
            "late_copies_not_verified": self._late_lost,
            "repeated_prewrites": sorter.repeated,
            "refused_ts": sorter.high.refused,
            "waiting": len(self._waiters),
            "asking_oracle": self._asking,
            "oracle_error": self._unanswered,
        }
