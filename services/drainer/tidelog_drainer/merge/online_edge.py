"""The registry's question before a Pump goes online (I4), as mail of the collector."""

from __future__ import annotations

import asyncio

from tidelog import messages
from tidelog.actor import Ref
from tidelog.errors import ActorStopped, TidelogError, UnparsablePayload
from tidelog.messages import Empty, PumpOnline
from tidelog.ports import Bus, Request
from tidelog_drainer.mail import CollectorMail, PumpJoins


async def serve_online(bus: Bus, subject: str, collector: Ref[CollectorMail]) -> None:
    """Until it is cancelled."""

    async def handle(request: Request) -> None:
        def settle(_: None, error: Exception | None) -> None:
            if isinstance(error, TidelogError):
                request.respond(messages.encode_error(error))
            elif error is None:
                request.respond(messages.encode(Empty()))

        try:
            node = messages.decode(request.data, PumpOnline).node
            await collector.tell(PumpJoins(node, collector.reply(settle)))
        except (UnparsablePayload, ActorStopped) as error:
            request.respond(messages.encode_error(error))

    subscription = await bus.serve(subject, handle)
    try:
        await asyncio.get_running_loop().create_future()
    finally:
        await subscription.close()
