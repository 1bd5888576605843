"""The Applier: reads a feed, writes it downstream, and is never further in its checkpoint than in
its rows (design section 9).

A reader task of this actor brings what the relay log has made durable, while the lanes write what
came before. A typed stop keeps the actor alive, applies nothing further and shows its reason, so
that nothing restarts in circles.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

import msgspec
import structlog

from tidelog import ask_registry, feed_metrics, subjects
from tidelog.actor import Actor, Ref, Reply
from tidelog.applier_control import LET_GO, READ_AHEAD, SHARED, ApplierRequest, DecidedStep, LetGo
from tidelog.config import redacted_url
from tidelog.ddl_pending import AGAIN, DONE
from tidelog.downstream import TakenOver
from tidelog.errors import (
    ActorStopped,
    BadInput,
    ConfigError,
    Corrupt,
    DiskFull,
    Refused,
    Stopped,
    TidelogError,
    Unavailable,
)
from tidelog.feed_reader import Gap
from tidelog.lease import TAKEOVER_S, AskLead, LeaseMail, Role
from tidelog.messages import APPLIER, NodeStatus
from tidelog.ports import Ports
from tidelog.questions import serve_questions
from tidelog.relay import Batch, BatchLog
from tidelog.supervisor import BeginAnew
from tidelog_applier.apply.pipeline import Pipeline
from tidelog_applier.apply.taking import Taking
from tidelog_applier.apply.trouble import Trouble
from tidelog_applier.apply.windows import cut
from tidelog_applier.config import ApplierConfig
from tidelog_applier.position import Position
from tidelog_applier.read import Ahead, Intake, Structures, Taken

log = structlog.get_logger()

HELD_S = 0.5
LOOK_S = 0.5
FIRST_LEAD_S = 1.5
"""A lease that nobody has is ours within this time; else somebody leads."""
ITEM_BYTES = 64
DDL_WORDS = {f"ddl-{word}": word for word in (DONE, AGAIN)}
TYPED_STOPS = (Stopped, BadInput, Refused, Gap, Corrupt)
"""Asking again changes nothing: somebody has to mend the cause and start the Applier again."""


class Read(msgspec.Struct, frozen=True):
    """The reader has these, in order; durable in the relay log."""

    items: list[Taken]
    bytes: int


class Ended(msgspec.Struct, frozen=True):
    """The reader met a typed stop, after all that it handed over before."""

    error: TidelogError


class Asked(msgspec.Struct, frozen=True):
    """An operator decides about a DDL."""

    request: ApplierRequest
    reply: Reply[DecidedStep]


Mail = Read | Ended | Asked


class Applier(Actor[Mail]):
    """`position` outlives this instance; everything else is read from the downstream again."""

    max_count = 256
    max_bytes = 32 << 20
    tick_s = 1.0
    progress_limit_s = 120.0

    def __init__(
        self,
        config: ApplierConfig,
        ports: Ports,
        position: Position,
        lease: Ref[LeaseMail],
        role: Role,
        relay: BatchLog,
    ) -> None:
        self._config = config
        self._ports = ports
        self._position = position
        self._lease = lease
        self._role = role
        self._pipeline = Pipeline(config, ports, position, self.spawn, self.progress)
        self._taking = Taking(self._pipeline, ports.clock, self.spawn)
        self._intake: Intake | None = None
        self._ahead: Ahead | None = None
        self._closing: asyncio.Task[None]
        self._relay = relay
        self._in_hand: list[Taken] = []
        self._ended: TidelogError | None = None
        self._stopped = False
        self._begun = False
        """It is known up to where an earlier life may have got."""
        self._came_at = ports.clock.monotonic()

    def weigh(self, message: Mail) -> int:
        return message.bytes if isinstance(message, Read) else ITEM_BYTES

    # Beginning ------------------------------------------------------------------------------

    async def on_start(self) -> None:
        """A wrong URL or password ends the start; an unreachable downstream doesn't, nor one that
        another Applier leads."""
        self._position.error = ""  # what an earlier instance met
        self._closing = self.spawn(self._close_at_the_end(), "close")
        await self._pipeline.refused.open()
        subject = subjects.applier(self._config.cluster, self._config.node, "control")
        bus = self._ports.bus
        serving = serve_questions(bus, subject, ApplierRequest, self.self_ref, Asked)
        self.spawn(serving, "control")
        asking = self.spawn(self._lead(), "lead")
        await asyncio.wait([asking], timeout=FIRST_LEAD_S)
        if asking.done():
            try:
                await self._pipeline.open()
            except Unavailable as error:
                self._pipeline.waits(error)
            except TYPED_STOPS as error:
                if isinstance(error, ConfigError):
                    raise
                self._halt(error)
        self.spawn(self._begin(asking), "begin")

    async def _lead(self) -> None:
        if self._is_away():
            await self._read_ahead()
        self._position.away = False
        await self._lease.ask(AskLead)

    def _is_away(self) -> bool:
        return self._position.held and self._position.away

    async def _read_ahead(self) -> None:
        """What is in the stream goes into the relay log, for whoever replays that."""
        saved = self._position.checkpoint
        if saved is None or not self._config.relay_dir:
            await self._held()
            return
        intake = self._new_intake(saved)
        self._ahead = Ahead(intake)
        trouble = Trouble(self._ports, self._position, "reading ahead")
        try:
            while (error := await self._ahead.read(self._is_away)) is not None:
                await trouble.met(error)
            trouble.over()
            await self._held()
        finally:
            self._ahead = None
            await intake.close()

    async def _held(self) -> None:
        while self._is_away():
            await self._ports.clock.sleep(HELD_S)

    async def _begin(self, leading: asyncio.Task[None]) -> None:
        """Once this Applier leads its feed: the downstream, then the log and the stream from there
        on."""
        await asyncio.wait([leading])
        if self._stopped:
            return
        try:
            await self._pipeline.ensure_open()
        except TYPED_STOPS as error:
            self._halt(error)
            return
        intake = self._intake = self._new_intake(self._pipeline.control.saved_ts)
        self.spawn(self._save_now_and_then(intake), "checkpoints")
        await self._read(intake)

    def _new_intake(self, after: int) -> Intake:
        feed, structures = self._config.feed, Structures(self._ports, self._config.feed)
        return Intake(self._ports.bus, feed, self._relay, structures, after=after)

    async def _read(self, intake: Intake) -> None:
        trouble = Trouble(self._ports, self._position, "reading")
        try:
            while not self._stopped:
                if self._position.held:
                    await self._ports.clock.sleep(HELD_S)
                    continue
                try:
                    items = await intake.next()
                except (Unavailable, DiskFull) as error:
                    await trouble.met(error)
                    continue
                except TYPED_STOPS as error:
                    await self.self_ref.tell(Ended(error))
                    return
                trouble.over()
                if not self._begun and self._relay.kept:
                    self._pipeline.control.narrow(intake.relay_end)
                self._begun = True
                if items:
                    await self.self_ref.tell(Read(items, sum(map(weight, items))))
        except ActorStopped:
            return

    async def _save_now_and_then(self, intake: Intake) -> None:
        """Beside the rows. (An atomic downstream saves the position with them.)"""
        try:
            while not self._stopped:
                await self._ports.clock.sleep(LOOK_S)
                if not self._pipeline.is_atomic:
                    await self._pipeline.save_if_due()
                await intake.applied(self._pipeline.control.saved_ts)
        except (TakenOver, *TYPED_STOPS) as error:
            with suppress(ActorStopped):  # it ends already, and meets the same there
                await self.self_ref.tell(Ended(error))

    # Working --------------------------------------------------------------------------------

    async def on_batch(self, batch: list[Mail]) -> None:
        self._came_at = self._ports.clock.monotonic()
        for message in batch:
            match message:
                case Asked():
                    await self._decide(message)
                case Read() if not self._stopped:
                    self._in_hand += message.items
                case Ended(error) if not self._stopped:
                    self._ended = error
        await self._work()

    async def _work(self) -> None:
        """Hand over all that is in hand, unless held: then it stays there. (That is not much: the
        reader is held too.)"""
        if self._stopped or self._position.held:
            return
        items, self._in_hand = self._in_hand, []
        ended = self._ended
        try:
            for one in cut(items, self._config.txn_batch, self._config.buffer_bytes // 2):
                self.progress()
                await self._taking.take(one)
            if ended is not None:
                await self._pipeline.drain()
                raise ended
        except TakenOver as error:
            await self._fenced(error)
        except TYPED_STOPS as error:
            self._halt(error)

    async def _decide(self, asked: Asked) -> None:
        """Recorded first; then all of this starts anew, from the checkpoint on, and obeys it."""
        commit_ts = asked.request.ts
        if asked.request.verb == LET_GO:
            await self._let_go(asked.reply)
            return
        if asked.request.verb == READ_AHEAD:
            self._tell_ahead(asked.reply)
            return
        try:
            word = self._word(asked.request.verb)
            await self._pipeline.open()
            pending = await self._pipeline.control.decide(commit_ts, word)
        except TidelogError as error:
            asked.reply.fail(error)
            return
        config = self._config
        asked.reply.set(DecidedStep(config.feed, config.node, commit_ts, pending.step, word))
        self._position.error = ""
        raise BeginAnew(f"an operator decided about the DDL at {commit_ts}: {word}")

    async def _let_go(self, reply: Reply[DecidedStep]) -> None:
        """Somebody else will write the downstream: the next instance, which begins once the pause
        is over, reads how far that got."""
        if not (self._position.held and self._position.quiet):
            reply.fail(Refused("this Applier is at work", hint="`tidelog pause` it first"))
            return
        config, stood = self._config, self._pipeline.control.saved_ts
        self._position.away = True
        await self._pipeline.close()
        settings = {key: getattr(config, key) for key in SHARED}
        settings["downstream"] = redacted_url(config.downstream)
        reply.set(LetGo(config.feed, config.node, stood, 0, LET_GO, settings))
        raise BeginAnew(
            f"the downstream, which stands at {stood}, is let go until the pause is over"
        )

    def _tell_ahead(self, reply: Reply[DecidedStep]) -> None:
        config = self._config
        try:
            if self._ahead is None:
                raise Unavailable("this Applier does not read ahead", hint="let it go first")
            reached = self._ahead.reached
        except TidelogError as error:
            reply.fail(error)
            return
        reply.set(DecidedStep(config.feed, config.node, reached, 0, READ_AHEAD))

    def _word(self, verb: str) -> str:
        if verb not in DDL_WORDS:
            raise BadInput(f"unknown verb {verb!r}", hint=", ".join(DDL_WORDS))
        if not self._stopped:
            hint = "`tidelog appliers` shows what each does"
            raise Refused("this Applier stands at no DDL", hint=hint)
        return DDL_WORDS[verb]

    async def on_tick(self) -> None:
        """Nothing came: what is in hand since a pause, a connection that was lost, the position."""
        held, ready = self._position.held, self._begun and not self._stopped
        if ready and not held and (self._in_hand or self._ended is not None):
            await self._work()
            return
        try:
            quiet = held and (not ready or await self._settled())
            # It may have been resumed meanwhile: then this is not about the next pause.
            self._position.quiet = quiet and self._position.held
            if ready and not held:
                await self._idle()
        except TakenOver as error:
            await self._fenced(error)
        except TYPED_STOPS as error:
            self._halt(error)

    async def _idle(self) -> None:
        self._pipeline.check()
        await self._pipeline.ensure_open()
        if self._ports.clock.monotonic() - self._came_at >= self._config.recover_after_s:
            # The upstream is gone, watermarks and all: what it left is whole.
            await self._pipeline.settle()
        await self._pipeline.save_if_due()

    async def _settled(self) -> bool:
        """All that was handed over is applied and saved."""
        if await self._pipeline.settle():
            return True
        if not self._pipeline.control.is_open:
            await self._pipeline.ensure_open()
        return await self._pipeline.settle()

    # Ending ---------------------------------------------------------------------------------

    async def on_stop(self) -> None:
        try:
            if self._begun and self._pipeline.control.is_open:
                await self._pipeline.drain()
                await self._pipeline.settle()
        except TidelogError as error:
            log.info("stopped without a last checkpoint", reason=str(error))
        self._closing.cancel()
        await asyncio.wait([self._closing])
        if self._intake is not None:
            await self._intake.close()

    async def _close_at_the_end(self) -> None:
        """However it ends: the next instance would meet this one's lock of a directory."""
        try:
            await asyncio.Event().wait()
        finally:
            await self._pipeline.close()

    async def _fenced(self, error: TakenOver) -> None:
        """Another Applier has taken over. If it leads, all of this starts anew, on stand-by, as
        soon as the lease says so. If this one leads all the same, and the other is one that stands
        by with it, that one has lost the lease since: this one begins anew behind it. Else the
        other knows nothing of our lease, and only a person can tell which of the two is right."""
        try:
            for _ in range(2):
                async with asyncio.timeout(2 * TAKEOVER_S):
                    await self._lease.ask(AskLead)
                await self._ports.clock.sleep(TAKEOVER_S / 2)
        except (TimeoutError, ActorStopped):
            raise error from None
        if await self._has_companion():
            raise error
        self._halt(Stopped(error.message, hint=error.hint))

    async def _has_companion(self) -> bool:
        """Does another Applier keep up the same copy? The registry is asked until it can tell."""
        config, clock = self._config, self._ports.clock
        trouble = Trouble(self._ports, self._position, "the registry")
        began, now = None, 0.0
        while began is None or now - began < ask_registry.HEARD_S:
            self.progress()
            try:
                known = await ask_registry.nodes(
                    self._ports.bus, config.cluster, timeout_s=TAKEOVER_S
                )
            except Unavailable as error:
                await trouble.met(error)
                continue
            trouble.over()
            if any(map(self._is_companion, known.nodes)):
                return True
            await clock.sleep(LOOK_S)
            now = clock.monotonic()
            began = now if began is None else began
        return False

    def _is_companion(self, one: NodeStatus) -> bool:
        config = self._config
        return (
            one.kind == APPLIER
            and one.feed == config.feed
            and one.nodeId != config.node
            and config.copy in (one.nodeId, one.standbyOf)
        )

    def _halt(self, error: TidelogError) -> None:
        """A typed stop: nothing is applied any more, and status and heartbeats show why."""
        self._stopped = True
        feed_metrics.STOPS.labels(type(error).__name__).inc()
        log.error(
            "the applier stops",
            error=error.message,
            hint=error.hint,
            kind=type(error).__name__,
            after_ts=self._position.applied,
        )
        self._position.error = str(error)

    def status(self) -> dict[str, object]:
        pipeline = self._pipeline
        return {
            "feed": self._config.feed,
            "downstream": pipeline.control.shown,
            "applied_ts": self._position.applied,
            "checkpoint_ts": self._position.checkpoint,
            "error": self._position.error,
            "stopped": self._stopped,
            "held": self._position.held,
            "not_ready": self._not_ready(),
            "rows": pipeline.flight.rows,
            **self._taking.status(),
            **pipeline.status(),
            **self._relay.status(),
        }

    def _not_ready(self) -> str:
        """A downstream that was lost on the way is waited for; one that never answered may be
        none. Who stands by is ready to."""
        if self._stopped:
            return self._position.error
        if self._role.standby:
            return ""
        error = self._position.error or "its answer is waited for"
        was_open = self._pipeline.control.was_open
        return "" if was_open else f"the downstream was never opened: {error}"


def weight(item: Taken) -> int:
    """Bytes of an item in memory."""
    return ITEM_BYTES + (item.size if isinstance(item, Batch) else 0)
