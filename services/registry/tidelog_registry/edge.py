"""The registry's subjects (design section 5): requests become messages, answers become bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from tidelog import messages, subjects
from tidelog.actor import Actor, Nothing, Ref, Reply
from tidelog.errors import TidelogError
from tidelog.messages import DdlAppend, DdlList, Empty, Heartbeat, Register, TsoRequest
from tidelog.ports import Handler, Ports, Request
from tidelog_registry import ddl_store, mail, metrics
from tidelog_registry.lease.tenure import Tenure
from tidelog_registry.oracle.tso import Take

S = TypeVar("S", bound=msgspec.Struct)
M = TypeVar("M")


class Edge(Actor[Nothing]):
    """The last child: it serves when all others do, and is the first to stop.

    The subscriptions live in a task, so that they end with this instance however it ends.
    """

    def __init__(
        self,
        ports: Ports,
        cluster: str,
        tenure: Tenure,
        directory: Ref[mail.DirectoryMail],
        ddl: Ref[ddl_store.Append | ddl_store.Page],
        tso: Ref[Take] | None,
    ) -> None:
        self._bus = ports.bus
        self._cluster = cluster
        handlers = {
            "register": _answer("register", directory, Register, mail.Enrol, tenure),
            "heartbeat": _answer("heartbeat", directory, Heartbeat, mail.Renew),
            "nodes": _answer("nodes", directory, Empty, lambda _, reply: mail.ListNodes(reply)),
            "state": _answer("state", directory, messages.StateRequest, mail.Operate, tenure),
            "safepoint": _answer(
                "safepoint", directory, messages.SafePointRequest, mail.AskSafePoint, tenure
            ),
            "ddl-append": _answer(
                "ddl-append",
                ddl,
                DdlAppend,
                lambda b, r: ddl_store.Append(bytes(b.job), r, b.after),
                tenure,
            ),
            "ddl-list": _answer("ddl-list", ddl, DdlList, ddl_store.Page),
        }
        if tso is not None:
            handlers["tso"] = _answer("tso", tso, TsoRequest, lambda b, r: Take(b.count, r))
        self._handlers = handlers

    async def on_start(self) -> None:
        serving = asyncio.Event()
        self.spawn(self._serve(serving), "serve")
        await serving.wait()

    async def _serve(self, serving: asyncio.Event) -> None:
        subscriptions = []
        try:
            for verb, handler in self._handlers.items():
                subject = subjects.registry(self._cluster, verb)
                subscriptions.append(await self._bus.serve(subject, handler))
            serving.set()
            await asyncio.Event().wait()
        finally:
            for subscription in subscriptions:
                await subscription.close()


def _answer(
    verb: str,
    ref: Ref[M],
    kind: type[S],
    make: Callable[[S, Reply[Any]], M],
    tenure: Tenure | None = None,
) -> Handler:
    """`tenure`: only the holder of the lease may decide it."""

    async def handle(request: Request) -> None:
        def settle(value: Any, error: Exception | None) -> None:
            if error is None:
                request.respond(messages.encode(value))
            elif isinstance(error, TidelogError):
                metrics.REFUSED.labels(verb, type(error).__name__).inc()
                request.respond(messages.encode_error(error))

        try:
            if tenure is not None:
                tenure.check()
            body = messages.decode(request.data or b"{}", kind)
            await ref.tell(make(body, ref.reply(settle)))
        except TidelogError as error:
            settle(None, error)

    return handle
