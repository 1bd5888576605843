"""A node's place in the cluster: register, renew the lease, follow the registry's word (I4).

The last child of every service's tree: everything it announces is then already there, and at a
graceful stop it says good-bye first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
import structlog

from tidelog import subjects
from tidelog.actor import Actor
from tidelog.errors import (
    ActorStopped,
    BadInput,
    Conflict,
    DiskFull,
    Fatal,
    TidelogError,
    Unavailable,
)
from tidelog.failpoints import hit
from tidelog.messages import (
    CLOSING,
    JOINING,
    OFFLINE,
    PAUSED,
    PAUSING,
    PUMP,
    Beat,
    Heartbeat,
    NodeStatus,
    Order,
    Register,
    Registered,
    decode_reply,
    encode,
)
from tidelog.orders import KeptOrder, WriteFile, read_order, write_order
from tidelog.ports import Ports

log = structlog.get_logger()

HEARTBEAT_S = 2.0
ANSWER_S = 1.0
"""How long an answer is waited for. With the pause after it, a node that nobody answers announces
itself at least three times a lease: a registry that lost everything hears of it in time, also when
a word is lost. A waiting joiner keeps its place."""
RETRY_S = (0.2, 0.6)
"""First and longest pause between tries; each is multiplied by 0.5 to 1.5."""
GOODBYE_S = 2.0

LEAVING_S = 0.5
"""Between two heartbeats of a node that is on its way out."""
LEFT_CLUSTER = "offline: it left the cluster; started again, it joins as a new node"

Describe = Callable[[], Awaitable[Heartbeat]]
OnState = Callable[[str, int], Awaitable[None]]
Admit = Callable[[], Awaitable[None]]
"""Raises what keeps this node from asking to join."""


class Member(msgspec.Struct, frozen=True):
    """The value of a key of the membership bucket (I3); the key is the escaped node id.

    Every entry whose state is not `offline` is a source of every Drainer; `offline` is the
    tombstone. `epoch` is the Pump's at the time of writing; `high_ts` is the largest timestamp it
    had announced by then, in a tombstone its last commit_ts; `mark` is its directory's. `read_ts`:
    of a tombstone, up to where everybody had surely read it; None = up to `high_ts`. `order`: the
    operators' last. `left_ts`: up to there one of this name held transactions, in another
    directory, and left with them; 0 = none did.
    """

    node: str
    state: str
    epoch: int = 0
    high_ts: int = 0
    mark: str = ""
    read_ts: int | None = None
    order: Order = Order()
    left_ts: int = 0

    @property
    def passed_ts(self) -> int:
        """What a tombstoned Pump holds above it is stranded."""
        return self.high_ts if self.read_ts is None else self.read_ts

    @property
    def gone_ts(self) -> int:
        """Up to there is what nobody can read any more, and all who were registered have."""
        return max(self.left_ts, self.passed_ts if self.state == OFFLINE else 0)


class Announce(msgspec.Struct, frozen=True):
    """Send a heartbeat now: something that others wait for has changed."""


class Membership(Actor[Announce]):
    """Keeps one node registered, and obeys the operators' orders that the registry passes on.

    `describe` gives the heartbeat to send, with what was `reached`; the agent sets the status'
    `state`, `isAlive` and `order`. `on_state(state, safe_point)` is called on every change of
    either, in order; a Pump takes Prewrites only while it is `online`, and is told `joining` when
    the registry has forgotten it. A safe point of 0 means unknown: purge nothing. Once told
    `offline` the node has left: it is told no other state, and says so until the process is started
    again, as a new node. An order is kept by `write_file` before its state is told. Transient
    failures are retried for ever; a refusal that asking again won't change (another cluster id, a
    newer instance with our node id) ends the actor with that error.
    """

    def __init__(
        self,
        ports: Ports,
        config_cluster: str,
        kind: str,
        describe: Describe,
        on_state: OnState,
        *,
        cluster_id: int,
        heartbeat_s: float = HEARTBEAT_S,
        admit: Admit | None = None,
        write_file: WriteFile | None = None,
    ) -> None:
        self._ports = ports
        self._cluster = config_cluster
        self._kind = kind
        self._describe = describe
        self._on_state = on_state
        self._cluster_id = cluster_id
        self._heartbeat_s = heartbeat_s
        self._admit = admit
        self._write_file = write_file or ports.disk.write_file
        self._kept = KeptOrder()
        self._left = False
        self._told: tuple[str, int] | None = None
        self._wake = asyncio.Event()
        self._failures = 0
        self._error = ""
        self._living: asyncio.Task[None] | None = None

    async def on_start(self) -> None:
        self._kept = read_order(self._ports.disk)
        self._living = self.spawn(self._live(), "live")

    async def on_batch(self, batch: list[Announce]) -> None:
        self._wake.set()

    async def on_stop(self) -> None:
        """Say good-bye: a Pump is paused (it stays a source), the others are gone."""
        if self._living is not None:
            self._living.cancel()
            await asyncio.wait([self._living])
        try:
            async with asyncio.timeout(GOODBYE_S):
                paused = self._kind == PUMP and not self._left
                await self._send(PAUSED if paused else OFFLINE)
        except (TidelogError, TimeoutError) as error:
            log.info("left without a good-bye: the lease will expire", reason=str(error))

    def status(self) -> dict[str, object]:
        state, safe_point = self._told or (JOINING, 0)
        shown: dict[str, object] = {
            "state": state,
            "safe_point": safe_point,
            "failures": self._failures,
            "error": self._error,
        }
        if self._kept.order.action:
            shown["order"] = self._kept.order.action
        if self._kind == PUMP and state == JOINING:
            shown["not_ready"] = f"joining: {self._error}" if self._error else "joining"
        elif state == OFFLINE:
            shown["not_ready"] = LEFT_CLUSTER
        return shown

    async def _live(self) -> None:
        while True:
            await self._register()
            # At once: only a heartbeat tells of consumers and feeds.
            while await self._renew():
                await self._until_due()
            if self._kind == PUMP:
                # Forgotten: it may be no source any more, so take no Prewrites until it is (I4).
                await self._tell(JOINING, 0)

    async def _register(self) -> None:
        pause = RETRY_S[0]
        while True:
            try:
                if self._admit is not None:
                    await self._admit()
                status = self._announced(await self._describe())
                hit("node.membership.before_registration")
                answer = await self._ports.bus.request(
                    subjects.registry(self._cluster, "register"),
                    encode(Register(status, self._cluster_id)),
                    timeout_s=ANSWER_S,
                )
                registered = decode_reply(answer.data, Registered)
            except (BadInput, Conflict, Fatal):
                raise
            except TidelogError as error:
                self._failures += 1
                self._error = str(error)
                log.info("not registered yet", kind=self._kind, reason=str(error))
                await self._ports.clock.sleep(pause * (0.5 + self._ports.rng.random()))
                pause = min(pause * 2, RETRY_S[1])
                continue
            self._error = ""
            hit("node.membership.registered")
            await self._obey(registered.order)
            await self._tell(registered.state, registered.safe_point)
            return

    async def _until_due(self) -> None:
        leaving = self._told is not None and self._told[0] in (PAUSING, CLOSING)
        pause_s = min(LEAVING_S, self._heartbeat_s) if leaving else self._heartbeat_s
        try:
            # Unanswered: again at once, or so.
            async with asyncio.timeout(RETRY_S[1] if self._error else pause_s):
                await self._wake.wait()
        except TimeoutError:
            return
        finally:
            self._wake.clear()

    async def _renew(self) -> bool:
        """One heartbeat; False if the registry doesn't know us. Silence changes nothing."""
        try:
            beat = await self._send("")
        except Unavailable as error:
            self._failures += 1
            self._error = str(error)
            log.info("no heartbeat got through", kind=self._kind, reason=str(error))
            return True
        self._error = ""
        if beat.known:
            await self._obey(beat.order)
            await self._tell(beat.state, beat.safe_point)
        return beat.known or self._left

    async def _send(self, last_state: str) -> Beat:
        heartbeat = await self._describe()
        status = self._announced(heartbeat)
        if last_state:
            status = msgspec.structs.replace(status, state=last_state, isAlive=False)
        hit("node.membership.before_heartbeat")
        answer = await self._ports.bus.request(
            subjects.registry(self._cluster, "heartbeat"),
            encode(msgspec.structs.replace(heartbeat, status=status)),
            timeout_s=ANSWER_S,
        )
        return decode_reply(answer.data, Beat)

    def _announced(self, heartbeat: Heartbeat) -> NodeStatus:
        state = heartbeat.reached or (self._told[0] if self._told is not None else JOINING)
        return msgspec.structs.replace(
            heartbeat.status,
            state=OFFLINE if self._left else state,
            isAlive=True,
            order=self._kept.standing,
        )

    async def _obey(self, order: Order) -> None:
        if order.number > self._kept.order.number:
            await self._keep(KeptOrder(order))

    async def _keep(self, kept: KeptOrder) -> None:
        """A full disk is waited for: nobody is told what might not hold."""
        while True:
            try:
                await write_order(self._write_file, kept)
            except DiskFull as error:
                self._error = f"an operator's order can't be kept: {error}"
                log.warning("no room to keep an operator's order", action=kept.order.action)
                await self._ports.clock.sleep(RETRY_S[1])
                continue
            hit("node.order.kept")
            self._kept = kept
            return

    async def _tell(self, state: str, safe_point: int) -> None:
        if self._left:
            state = OFFLINE
        elif state == OFFLINE:
            await self._keep(KeptOrder(self._kept.order, left=True))
            self._left = True
        if self._told == (state, safe_point):
            return
        if self._told is None or self._told[0] != state:
            log.info("state", kind=self._kind, state=state)
        hit("node.membership.before_state")
        try:
            await self._on_state(state, safe_point)
        except ActorStopped as error:
            # Who would have obeyed is being restarted: the next heartbeat tells the new one.
            log.info("the state is told again", reason=str(error))
            return
        hit("node.membership.state_told")
        self._told = (state, safe_point)
        if state == PAUSING:
            self._wake.set()
