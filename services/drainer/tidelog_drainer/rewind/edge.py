"""A reader's question for a rewind, as mail of the rewinder."""

from __future__ import annotations

import asyncio

from tidelog import messages
from tidelog.actor import Ref, Reply
from tidelog.errors import ActorStopped, Overloaded, TidelogError, UnparsablePayload
from tidelog.ports import Bus, Request
from tidelog.rewind import Replay, Rewind
from tidelog_drainer.mail import AskRewind, RewinderMail

MAX_QUESTIONS = 64
"""At once; each waits for the one before it."""


async def serve_rewinds(bus: Bus, subject: str, rewinder: Ref[RewinderMail]) -> None:
    """Until it is cancelled."""
    under_way = 0

    async def handle(request: Request) -> None:
        nonlocal under_way

        def settle(replay: Replay | None, error: Exception | None) -> None:
            nonlocal under_way
            under_way -= 1
            if isinstance(error, TidelogError):
                request.respond(messages.encode_error(error))
            elif replay is not None:
                request.respond(messages.encode(replay))

        try:
            asked = messages.decode(request.data, Rewind)
            if under_way >= MAX_QUESTIONS:
                raise Overloaded(f"{under_way} questions are under way")
            reply: Reply[Replay] = rewinder.reply(settle)
            under_way += 1
            await rewinder.tell(AskRewind(asked, reply))
        except (UnparsablePayload, Overloaded, ActorStopped) as error:
            request.respond(messages.encode_error(error))

    subscription = await bus.serve(subject, handle)
    try:
        await asyncio.get_running_loop().create_future()
    finally:
        await subscription.close()
