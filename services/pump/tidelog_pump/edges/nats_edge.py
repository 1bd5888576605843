"""The NATS edge: turns bytes into messages, and knows nothing else (section 7, Ingest)."""

from __future__ import annotations

import asyncio
import contextlib

import msgspec
from google.protobuf.message import DecodeError

from tidelog import subjects
from tidelog.actor import Actor, Ref, Reply
from tidelog.errors import Overloaded, Stranded, TidelogError, UnparsablePayload
from tidelog.messages import decode, encode_error
from tidelog.ports import Buffer, Bus, Clock, Request, Subscription
from tidelog.pump_control import ControlRequest
from tidelog_proto.transport_pb2 import WriteBatch, WriteBatchResult, WriteResult
from tidelog_pump.edges.control import Controller
from tidelog_pump.identity import Identity
from tidelog_pump.metrics import NATS_SECONDS
from tidelog_pump.pull.puller import Pull, PullerMessage, refuse
from tidelog_pump.unforeseen import typed
from tidelog_pump.write.writer import Append, Outcome, WriterMessage

_DONE = b"\x0a\x00"
"""One empty WriteResult within a WriteBatchResult."""


MAX_QUESTIONS = 256
"""Control requests under way; more are refused."""


class Control(msgspec.Struct, frozen=True):
    """A request of `pump.<node>.control`."""

    request: Request


class NatsEdge(Actor[Control]):
    def __init__(
        self,
        clock: Clock,
        bus: Bus,
        cluster: str,
        identity: Identity,
        controller: Controller,
        writer: Ref[WriterMessage],
        puller: Ref[PullerMessage],
    ) -> None:
        self._clock = clock
        self._bus = bus
        self._cluster = cluster
        self._identity = identity
        self._controller = controller
        self._questions = 0
        self._writer = writer
        self._puller = puller
        self._subscriptions: list[Subscription] = []

    async def on_start(self) -> None:
        for verb, handler in (
            ("write", self._write),
            ("pull", self._pull),
            ("control", self._control),
        ):
            subject = subjects.pump(self._cluster, self._identity.node, verb)
            self._subscriptions.append(await self._bus.serve(subject, handler))
        self.spawn(self._close_at_end(), "subscriptions")

    async def _close_at_end(self) -> None:
        """Whatever ends this actor, a crash too, its subscriptions end with it."""
        try:
            await asyncio.Event().wait()
        finally:
            for subscription in self._subscriptions:
                await subscription.close()

    async def _write(self, request: Request) -> None:
        began = self._clock.monotonic()
        try:
            batch = WriteBatch.FromString(request.data)
        except DecodeError:
            respond_all(request, 1, UnparsablePayload("the body is no WriteBatch"))
            self._observe(began, failed=True)
            return
        payloads: list[Buffer] = list(batch.payloads)

        def settle(outcomes: list[Outcome] | None, error: Exception | None) -> None:
            if error is not None or outcomes is None:
                respond_all(request, len(payloads), error)
            else:
                request.respond(encode_outcomes(outcomes))
            self._observe(began, failed=outcomes is None or any(outcomes))

        try:
            reply: Reply[list[Outcome]] = self._writer.reply(settle)
            await self._writer.tell(Append(batch.cluster_id, payloads, reply))
        except TidelogError as error:
            respond_all(request, len(payloads), error)
            self._observe(began, failed=True)

    def _observe(self, began: float, *, failed: bool) -> None:
        NATS_SECONDS["fail" if failed else "succ"].observe(self._clock.monotonic() - began)

    async def _pull(self, request: Request) -> None:
        try:
            self._identity.check_readable()
        except Stranded as error:
            refuse(request, error)
            return
        # Stopping: the poll's deadline passes at the reader's side.
        with contextlib.suppress(TidelogError):
            await self._puller.tell(Pull(request))

    async def _control(self, request: Request) -> None:
        try:
            await self.self_ref.tell(Control(request))
        except TidelogError as error:
            request.respond(encode_error(error))

    async def on_batch(self, batch: list[Control]) -> None:
        """Each in a task of its own: some wait for the index or the writer."""
        for message in batch:
            if self._questions >= MAX_QUESTIONS:
                error = Overloaded(f"{MAX_QUESTIONS} control requests are under way")
                message.request.respond(encode_error(error))
                continue
            self._questions += 1
            self.spawn(self._answer(message.request), "control")

    async def _answer(self, request: Request) -> None:
        try:
            answer = await self._controller.answer(decode(request.data, ControlRequest))
            request.respond(msgspec.json.encode(answer))
        except Exception as error:  # noqa: BLE001 (a bug that one request meets ends that one)
            request.respond(encode_error(typed(error, "control")))
        finally:
            self._questions -= 1


def encode_outcomes(outcomes: list[Outcome]) -> bytes:
    """A WriteBatchResult."""
    if not any(outcomes):
        return _DONE * len(outcomes)
    return WriteBatchResult(results=[_result(outcome) for outcome in outcomes]).SerializeToString()


def _result(outcome: Exception | None) -> WriteResult:
    if outcome is None:
        return WriteResult()
    message = outcome.message if isinstance(outcome, TidelogError) else str(outcome)
    definite = isinstance(outcome, TidelogError) and outcome.definite
    return WriteResult(code=type(outcome).__name__, message=message, definite=definite)


def respond_all(request: Request, count: int, error: Exception | None) -> None:
    """The same outcome for every payload of a batch."""
    result = _result(error)
    request.respond(WriteBatchResult(results=[result] * max(count, 1)).SerializeToString())
