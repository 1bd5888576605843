"""A reader's question for a rewind, as mail of the rewinder."""

from __future__ import annotations

import asyncio

from tidelog import messages
from tidelog.actor import Ref
from tidelog.errors import ActorStopped, TidelogError, UnparsablePayload
from tidelog.ports import Bus, Request
from tidelog.rewind import Replay, Rewind
from tidelog_drainer.mail import AskRewind, RewinderMail


async def serve_rewinds(bus: Bus, subject: str, rewinder: Ref[RewinderMail]) -> None:
    """Until it is cancelled."""

    async def handle(request: Request) -> None:
        def settle(replay: Replay | None, error: Exception | None) -> None:
            if isinstance(error, TidelogError):
                request.respond(messages.encode_error(error))
            elif replay is not None:
                request.respond(messages.encode(replay))

        try:
            asked = messages.decode(request.data, Rewind)
            await rewinder.tell(AskRewind(asked, rewinder.reply(settle)))
        except (UnparsablePayload, ActorStopped) as error:
            request.respond(messages.encode_error(error))

    subscription = await bus.serve(subject, handle)
    try:
        await asyncio.get_running_loop().create_future()
    finally:
        await subscription.close()
