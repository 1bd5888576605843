"""The coordinator: records decisions, sends Commits, and answers the Pumps (`txnstatus`)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

import msgspec
import structlog

from tidelog.actor import Actor, Reply
from tidelog.errors import ActorStopped, TidelogError, UnparsablePayload
from tidelog.failpoints import hit
from tidelog.messages import TxnStatusReply, TxnStatusRequest, decode, encode, encode_error
from tidelog.ports import Bus, Clock, Request, Subscription, Verdict
from tidelog.pump_client.client import PumpClient
from tidelog.pump_client.decisions.decisions import ROLLED_BACK, Decision, Decisions
from tidelog.pump_client.decisions.owner import owner_of
from tidelog.subjects import txnstatus
from tidelog_proto.binlog_pb2 import Binlog

log = structlog.get_logger()

RETRY_S = 0.2
SPARE_RECORDS = 1 << 14
"""So many more than are needed may stand in the journal before it is made anew."""


class Keeper(Protocol):
    """Where decisions are kept: `journal.Journal` or `journal.Memory`."""

    owner: str
    """The client's own name; known after `open`."""
    floor: int

    async def open(self) -> list[Decision]: ...
    async def append(self, decisions: Sequence[Decision]) -> None: ...
    async def make_anew(self, decisions: Sequence[Decision], floor: int) -> None: ...
    def close(self) -> None: ...
    @property
    def records(self) -> int: ...


class Decide(msgspec.Struct, frozen=True):
    """Commit it. Answered with True when that is durable and its Commit is on its way; with False
    when it was rolled back before. No answer (ActorStopped): the outcome is unknown until the next
    life. A place of the coordinator's `room` comes with it, and stays here with the answer True."""

    commit: Binlog
    reply: Reply[bool]


class Question(msgspec.Struct, frozen=True):
    request: Request


class Drain(msgspec.Struct, frozen=True):
    """Answered when no Commit is on its way."""

    reply: Reply[None]


class LookUp(msgspec.Struct, frozen=True):
    """What became of a transaction of this client, now for good: an open one is rolled back."""

    start_ts: int
    reply: Reply[Verdict]


CoordinatorMessage = Decide | Question | Drain | LookUp


class Coordinator(Actor[CoordinatorMessage]):
    tick_s = 1.0

    def __init__(
        self,
        client: PumpClient,
        bus: Bus,
        clock: Clock,
        keeper: Keeper,
        decisions: Decisions,
        *,
        cluster: str,
        room: asyncio.Semaphore,
        ready: asyncio.Event,
    ) -> None:
        self._client = client
        self._bus = bus
        self._clock = clock
        self._keeper = keeper
        self._subject = txnstatus(cluster)
        self._room = room
        self._ready = ready
        self._decisions = decisions
        self._answered = 0
        self._delivering = 0
        self._draining: list[Reply[None]] = []

    async def on_start(self) -> None:
        self.spawn(self._let_go_at_end(), "files")
        self._decisions.load(await self._keeper.open(), self._keeper.floor)
        self.spawn(self._close_at_end(await self._serve()), "subscription")
        self._ready.set()

    async def _serve(self) -> Subscription:
        while True:
            try:
                return await self._bus.serve(self._subject, self._receive)
            except TidelogError:
                await self._clock.sleep(RETRY_S)

    async def _close_at_end(self, served: Subscription) -> None:
        """Whatever ends this life, a crash too: else the next one would get each question twice."""
        try:
            await asyncio.Event().wait()
        finally:
            await served.close()

    async def _let_go_at_end(self) -> None:
        """However this life ends: an error of the application's ends it without an `on_stop`."""
        try:
            await asyncio.Event().wait()
        finally:
            self._keeper.close()

    async def _receive(self, request: Request) -> None:
        """A question that finds no room, or nobody, is asked again."""
        with suppress(ActorStopped):
            self.self_ref.try_tell(Question(request))

    async def on_batch(self, batch: list[CoordinatorMessage]) -> None:
        """One fdatasync for all decisions of the batch."""
        decided: list[Decide] = []
        for message in batch:
            match message:
                case Decide(commit, reply):
                    if self._decisions.decide(commit.start_ts):
                        decided.append(message)
                    else:
                        reply.set(False)
                case Question(request):
                    self._answer(request)
                case Drain(reply):
                    self._draining.append(reply)
                case LookUp(start_ts, reply):
                    found = self._decisions.verdict(start_ts, is_ours=True, force=True)
                    # A decision that was asked about was pinned, so not dropped below the floor.
                    reply.set(found or Verdict(ROLLED_BACK))
        if decided:
            await self._record(decided)
        self._drain()

    async def on_tick(self) -> None:
        self._decisions.forget(self._clock.monotonic())
        if self._keeper.records > 2 * len(self._decisions) + SPARE_RECORDS:
            await self._keeper.make_anew(self._decisions.kept(), self._decisions.floor)

    async def _record(self, decided: list[Decide]) -> None:
        decisions = [Decision(one.commit.start_ts, one.commit.commit_ts) for one in decided]
        hit("client.decision.before_append")
        await self._keeper.append(decisions)
        hit("client.decision.appended")
        for decision, message in zip(decisions, decided, strict=True):
            self._decisions.recorded(decision)
            self._delivering += 1
            delivery = self.spawn(self._deliver(message.commit), "commit")
            delivery.add_done_callback(self._delivered)
            message.reply.set(True)

    async def _deliver(self, commit: Binlog) -> None:
        """Until a Pump has it, or the client gave it up: then that Pump asks, however late."""
        try:
            await self._client.write(commit, wait=True)
            self._decisions.acked(commit.start_ts, self._clock.monotonic())
        except TidelogError as error:
            log.warning("a Commit was not acked", start_ts=commit.start_ts, reason=str(error))

    def _delivered(self, _: asyncio.Task[None]) -> None:
        """Also of one that was cancelled before its first step."""
        self._room.release()
        self._delivering -= 1
        self._drain()

    def _drain(self) -> None:
        if self._delivering == 0:
            for reply in self._draining:
                reply.set(None)
            self._draining.clear()

    def _answer(self, request: Request) -> None:
        """Silent about what we don't know: another client may. Nobody's silence is a verdict."""
        try:
            question = decode(request.data, TxnStatusRequest)
        except UnparsablePayload as error:
            request.respond(encode_error(error))
            return
        verdict = self._decisions.verdict(
            question.start_ts,
            is_ours=owner_of(question.prewrite_key) == self._keeper.owner,
            force=question.force,
        )
        if verdict is not None:
            self._answered += 1
            request.respond(encode(TxnStatusReply(verdict.state, verdict.commit_ts)))

    def status(self) -> dict[str, object]:
        return self._decisions.status() | {"answered": self._answered}
