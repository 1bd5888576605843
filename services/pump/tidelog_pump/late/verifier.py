"""The verifier: asks the other Pumps about late copies, off the hot path (I2, who-has).

A late copy is an `x` key of the index, put by the indexer where the log alone tells, or from here
when the sorter saw a Commit at or below resolved_ts. One `have` settles it: the key goes. `pending`
is asked again. All `no`: it becomes an `l` key, which stops every reader that missed it. Whatever
else it is, it stays and is shown. All of it survives a restart; built again from the log, it is
asked again. What an operator accepted is kept in a file of its own.

A Commit without its Prewrite (a `u` key) is asked about likewise: whoever has the transaction
settles it. All `no`: it is shown as missing, and asked again. It stops nobody: this Pump never held
the Prewrite, so it promised nothing of it (I2), and one stray Commit could stop every feed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

import msgspec
import structlog

from tidelog import ask_registry, subjects
from tidelog.actor import Actor, Ref, Reply
from tidelog.errors import ActorStopped, BadInput, DiskFull, TidelogError, Unavailable
from tidelog.messages import OFFLINE, PUMP, Nodes, NodeStatus, decode_reply, encode
from tidelog.ports import Bus, Clock, Disk, IndexStore
from tidelog.pump_control import ControlRequest, WhoHas
from tidelog.timestamps import TS_MAX
from tidelog_pump.identity import Identity
from tidelog_pump.index import keys
from tidelog_pump.index.indexer import IndexerMessage, Note, look_up, unpaired
from tidelog_pump.index.keys import State
from tidelog_pump.late.late_file import LateFile
from tidelog_pump.late.reader import (
    MISSING,
    NO,
    PENDING,
    PURGED,
    SETTLED,
    UNREACHABLE,
    UNVERIFIED,
    judge,
)
from tidelog_pump.log.place import Pointer
from tidelog_pump.log.purge import PurgePoint
from tidelog_pump.log.reserve import Reserve
from tidelog_pump.metrics import LATE_VERDICTS
from tidelog_pump.sort.sorter_actor import AwaitLate, Late, SorterMessage

log = structlog.get_logger()

REGISTRY = "registry"
PAGE = 256
QUESTIONS = 4096
PARALLEL = 8
ASK_S = 3.0
NODES_S = 1.0
PAUSE_S = (0.5, 30.0)
"""Between two rounds about one transaction: first, and longest after doubling."""
SHOWN = 16
COUNTED = 1000


class Accept(msgspec.Struct, frozen=True):
    """The operator says that readers may miss this one. Answered with its commit_ts."""

    start_ts: int
    reply: Reply[int]


class Suspect(msgspec.Struct, frozen=True):
    """A late copy, or with `missing` one that nobody else has; where its Prewrite lies, or of an
    unpaired one the Commit."""

    start_ts: int
    commit_ts: int
    segment: int
    offset: int
    missing: bool
    answer: str = ""
    asked: int = 0


class Shown(msgspec.Struct, frozen=True):
    """The first unverified and the first missing ones in commit order; the first unpaired ones."""

    unverified: list[Suspect]
    missing: list[Suspect]
    unpaired: list[Suspect] = []


class ReadSuspects(msgspec.Struct, frozen=True):
    limit: int
    reply: Reply[Shown]


class ReadMissing(msgspec.Struct, frozen=True):
    """Did all the others say `no` when they were asked about this unpaired Commit?"""

    start_ts: int
    reply: Reply[bool]


VerifierMessage = Accept | ReadSuspects | ReadMissing


class _Question(msgspec.Struct):
    next_s: float = 0.0
    pause_s: float = PAUSE_S[0]
    asked: int = 0
    running: bool = False
    answer: str = ""
    missing: bool = False
    """Of an unpaired Commit: all said no."""


class Verifier(Actor[VerifierMessage]):
    tick_s = 0.25

    def __init__(
        self,
        clock: Clock,
        bus: Bus,
        disk: Disk,
        reserve: Reserve,
        store: IndexStore,
        identity: Identity,
        purge: PurgePoint,
        sorter: Ref[SorterMessage],
        indexer: Ref[IndexerMessage],
        *,
        cluster: str,
    ) -> None:
        self._clock = clock
        self._bus = bus
        self._file = LateFile(disk, reserve)
        self._store = store
        self._identity = identity
        self._purge = purge
        self._sorter = sorter
        self._indexer = indexer
        self._cluster = cluster
        self._questions: dict[int, _Question] = {}
        self._running = 0
        self._next = self._next_unpaired = b""
        self._nodes: tuple[float, Nodes] | None = None

    async def on_start(self) -> None:
        self._file.load()
        # An index built anew from the log knows nothing of it.
        puts: list[tuple[bytes, bytes]] = []
        for known, key in (
            (self._file.missing, keys.late_key),
            (self._file.suspected, keys.suspect_key),
        ):
            for start_ts, commit_ts in known.items():
                at = self._committed(start_ts, commit_ts)
                if at is not None:
                    puts.append((key(commit_ts, start_ts), at))
        accepted = self._file.accepted.items()
        await self._note(puts, [key for pair in accepted for key in _keys(*pair)])
        self.spawn(self._listen(), "late copies")

    async def on_batch(self, batch: list[VerifierMessage]) -> None:
        for message in batch:
            match message:
                case Accept():
                    await self._accept(message)
                case ReadSuspects():
                    message.reply.set(self._shown(message.limit))
                case ReadMissing():
                    message.reply.set(self._question(message.start_ts).missing)

    async def _listen(self) -> None:
        """What the sorter finds late goes into the index and the file: only then it is taken."""
        taken = 0
        while True:
            try:
                late: list[Late] = await self._sorter.ask(partial(AwaitLate, taken))
            except ActorStopped:
                return  # The supervisor is about to start all of us anew.
            puts: list[tuple[bytes, bytes]] = []
            suspected: dict[int, int] = {}
            for copy in late:
                at = self._committed(copy.start_ts, copy.commit_ts)
                # Without its Prewrite it is shown as such, and is late when that comes.
                if at is not None and self._file.accepted.get(copy.start_ts) != copy.commit_ts:
                    puts.append((keys.suspect_key(copy.commit_ts, copy.start_ts), at))
                    suspected[copy.start_ts] = copy.commit_ts
            await self._note(puts, [])
            try:
                await self._file.suspect(suspected)
            except DiskFull as error:
                log.warning("late copies can't be kept beside the index", error=error.message)
                await self._clock.sleep(PAUSE_S[1])
                continue  # The sorter has them still.
            taken = late[-1].number

    def _committed(self, start_ts: int, commit_ts: int) -> bytes | None:
        """Where the Prewrite lies, packed; None if the transaction is not readable here."""
        known = look_up(self._store, start_ts)
        if known is None or known[:2] != (State.COMMITTED, commit_ts):
            return None
        return keys.pack_pointer(Pointer(known.place.fid, known.place.offset))

    async def _note(self, puts: list[tuple[bytes, bytes]], deletes: list[bytes]) -> None:
        if puts or deletes:
            await self._indexer.ask(lambda reply: Note(puts, deletes, reply))

    async def on_tick(self) -> None:
        """A page of them at each tick, round and round."""
        self._next = self._look(self._next, keys.suspect_range(), keys.unpack_late)
        alone = keys.unpaired_range()
        self._next_unpaired = self._look(self._next_unpaired, alone, keys.unpack_unpaired)

    def _look(
        self,
        begin: bytes,
        span: tuple[bytes, bytes],
        unpack: Callable[[bytes, bytes], tuple[int, int, Pointer]],
    ) -> bytes:
        """Where to go on."""
        page = self._store.scan(begin or span[0], span[1], PAGE)
        now_s = self._clock.monotonic()
        for key, value in page:
            if self._running >= PARALLEL:
                return key
            start_ts, commit_ts, at = unpack(key, value)
            question = self._questions.setdefault(start_ts, _Question())
            if len(self._questions) > QUESTIONS:
                # Not one that runs: it would be asked a second time meanwhile.
                idle = (ts for ts, one in self._questions.items() if not one.running)
                del self._questions[next(idle)]
            if not question.running and question.next_s <= now_s:
                question.running = True
                self._running += 1
                self.spawn(self._verify(start_ts, commit_ts, at, question), "question")
        return page[-1][0] + b"\x00" if len(page) == PAGE else b""

    async def _verify(
        self, start_ts: int, commit_ts: int, at: Pointer, question: _Question
    ) -> None:
        question.asked += 1
        try:
            answers = await self._ask_all(start_ts, commit_ts)
            question.answer = ", ".join(f"{k}: {v}" for k, v in sorted(answers.items()))
            known = look_up(self._store, start_ts)
            if known is not None and known[:2] == (State.UNPAIRED, commit_ts):
                await self._judged_unpaired(start_ts, commit_ts, question, judge(answers))
            else:
                await self._judged(start_ts, commit_ts, at, judge(answers))
        except (DiskFull, Unavailable) as error:
            question.answer = type(error).__name__
        finally:
            self._running -= 1
            question.running = False
            question.next_s = self._clock.monotonic() + question.pause_s
            question.pause_s = min(question.pause_s * 2, PAUSE_S[1])

    async def _ask_all(self, start_ts: int, commit_ts: int) -> dict[str, str]:
        """Each other Pump's answer, the registry's while it can't say which there are. Below our
        own purge point we can't say no: it may have been here."""
        nodes = await self._known_nodes()
        if nodes is None:
            return {REGISTRY: UNREACHABLE}
        pumps = [n for n in nodes.nodes if n.kind == PUMP and n.nodeId != self._identity.node]
        asked = (self._ask(node.nodeId, start_ts, commit_ts) for node in pumps)
        answers = {self._identity.node: PURGED} if commit_ts <= self._purge.ts else {}
        for node, said in zip(pumps, await asyncio.gather(*asked), strict=True):
            left = said == UNREACHABLE and _left_before(node, commit_ts)
            answers[node.nodeId] = NO if left else said
        return answers

    async def _known_nodes(self) -> Nodes | None:
        """Of at most a second ago; None if the registry does not answer, or is not settled."""
        now = self._clock.monotonic()
        if self._nodes is None or now - self._nodes[0] > NODES_S:
            try:
                nodes = await ask_registry.nodes(self._bus, self._cluster, timeout_s=ASK_S)
                self._nodes = (now, nodes)
            except TidelogError as error:
                log.info("the registry does not say which Pumps there are", error=str(error))
                return None
        return self._nodes[1] if self._nodes[1].settled else None

    async def _ask(self, node: str, start_ts: int, commit_ts: int) -> str:
        subject = subjects.pump(self._cluster, node, "control")
        body = encode(ControlRequest("who-has", start_ts, commit_ts))
        try:
            answer = await self._bus.request(subject, body, timeout_s=ASK_S)
            return decode_reply(answer.data, WhoHas).answer
        except TidelogError as error:
            log.info("a Pump does not say what it has", node=node, error=str(error))
            return UNREACHABLE

    async def _judged(self, start_ts: int, commit_ts: int, at: Pointer, verdict: str) -> None:
        suspect, late, _ = _keys(start_ts, commit_ts)
        if self._file.accepted.get(start_ts) == commit_ts:  # as unpaired
            await self._note([], [suspect, late])
            return
        if verdict in (PENDING, UNVERIFIED):
            return
        if verdict == SETTLED:
            await self._file.settle(start_ts)
            await self._note([], [suspect, late])
        elif not await self._file.miss(start_ts, commit_ts):
            await self._note([], [suspect, late])
            return
        else:
            await self._note([(late, keys.pack_pointer(at))], [suspect])
            log.error(
                "a late copy that no other Pump has: readers past it are stopped",
                start_ts=start_ts,
                commit_ts=commit_ts,
                at=list(at),
            )
        LATE_VERDICTS.labels(verdict).inc()
        self._questions.pop(start_ts, None)

    async def _judged_unpaired(
        self, start_ts: int, commit_ts: int, question: _Question, verdict: str
    ) -> None:
        """Its Prewrite may be right behind it: missing only if nobody has it at the second look."""
        if verdict == SETTLED:
            await self._note([], [keys.unpaired_key(start_ts)])
            LATE_VERDICTS.labels("unpaired_settled").inc()
            self._questions.pop(start_ts, None)
        elif verdict == MISSING and question.asked > 1:
            if not question.missing:
                LATE_VERDICTS.labels("unpaired_missing").inc()
                told = {"start_ts": start_ts, "commit_ts": commit_ts}
                log.error("a Commit whose Prewrite no Pump has", **told)
            question.missing = True
        elif verdict == PENDING:
            question.missing = False

    async def _accept(self, message: Accept) -> None:
        start_ts = message.start_ts
        known = look_up(self._store, start_ts)
        entries = [] if known is None else _keys(start_ts, known.commit_ts)
        if known is None or not any(self._store.get(key) is not None for key in entries):
            error = BadInput(
                f"transaction {start_ts} is no late one here: there is nothing to accept",
                hint="`tidelog status` shows what is late, and at which Pump",
            )
            message.reply.fail(error)
            return
        try:
            await self._file.accept(start_ts, known.commit_ts)
        except DiskFull as error:
            message.reply.fail(error)
            return
        await self._note([], entries)
        self._questions.pop(start_ts, None)
        LATE_VERDICTS.labels("accepted").inc()
        log.warning("an operator accepted", start_ts=start_ts, commit_ts=known.commit_ts)
        message.reply.set(known.commit_ts)

    def _shown(self, limit: int) -> Shown:
        late = [
            self._suspect(*keys.unpack_late(*entry), missing=True)
            for entry in self._store.scan(*keys.late_range(0, TS_MAX - 1), limit)
        ]
        stopped = {(s.start_ts, s.commit_ts) for s in late}
        found = self._store.scan(*keys.suspect_range(), limit)
        suspects = [self._suspect(*keys.unpack_late(*entry), missing=False) for entry in found]
        alone = [
            self._suspect(start_ts, commit_ts, at, missing=self._question(start_ts).missing)
            for start_ts, commit_ts, at in unpaired(self._store, limit)
        ]
        unverified = [s for s in suspects if (s.start_ts, s.commit_ts) not in stopped]
        return Shown(unverified, late, alone)

    def _question(self, start_ts: int) -> _Question:
        return self._questions.get(start_ts, _Question())

    def _suspect(self, start_ts: int, commit_ts: int, at: Pointer, *, missing: bool) -> Suspect:
        known = self._question(start_ts)
        return Suspect(start_ts, commit_ts, *at, missing, known.answer, known.asked)

    def status(self) -> dict[str, object]:
        shown = self._shown(COUNTED)
        return {
            "unverified": len(shown.unverified),
            "missing": len(shown.missing),
            "unpaired": len(shown.unpaired),
            "unpaired_missing": sum(one.missing for one in shown.unpaired),
            "accepted": len(self._file.accepted),
            "asking": self._running,
            "oldest_unverified": msgspec.to_builtins(shown.unverified[:SHOWN]),
            "oldest_missing": msgspec.to_builtins(shown.missing[:SHOWN]),
            "oldest_unpaired": msgspec.to_builtins(shown.unpaired[:SHOWN]),
        }


def _left_before(node: NodeStatus, commit_ts: int) -> bool:
    """Had it left the cluster, with a last commit_ts below this one? It is never there again, and
    what it took is known."""
    return node.state == OFFLINE and node.maxCommitTS < commit_ts


def _keys(start_ts: int, commit_ts: int) -> list[bytes]:
    """The keys that a late one may have: to be verified, missed by readers, without Prewrite."""
    suspect, late = keys.suspect_key(commit_ts, start_ts), keys.late_key(commit_ts, start_ts)
    return [suspect, late, keys.unpaired_key(start_ts)]
