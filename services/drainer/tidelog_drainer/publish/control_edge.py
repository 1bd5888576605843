"""Operators' questions and orders (`drainer.<node>.control`), as mail of the publisher."""

from __future__ import annotations

import asyncio

from tidelog import messages
from tidelog.actor import Ref, Reply
from tidelog.drainer_control import DrainerRequest, FeedDdls
from tidelog.errors import ActorStopped, Overloaded, TidelogError, UnparsablePayload
from tidelog.ports import Bus, Request
from tidelog_drainer.mail import Control, PublisherMail

MAX_QUESTIONS = 64


async def serve_control(bus: Bus, subject: str, publisher: Ref[PublisherMail]) -> None:
    """Until it is cancelled."""
    under_way = 0

    async def handle(request: Request) -> None:
        nonlocal under_way

        def settle(answer: FeedDdls | None, error: Exception | None) -> None:
            nonlocal under_way
            under_way -= 1
            if isinstance(error, TidelogError):
                request.respond(messages.encode_error(error))
            elif answer is not None:
                request.respond(messages.encode(answer))

        try:
            asked = messages.decode(request.data, DrainerRequest)
            if under_way >= MAX_QUESTIONS:
                raise Overloaded(f"{under_way} questions are under way")
            reply: Reply[FeedDdls] = publisher.reply(settle)
            under_way += 1
            await publisher.tell(Control(asked, reply))
        except (UnparsablePayload, Overloaded, ActorStopped) as error:
            request.respond(messages.encode_error(error))

    subscription = await bus.serve(subject, handle)
    try:
        await asyncio.get_running_loop().create_future()
    finally:
        await subscription.close()
