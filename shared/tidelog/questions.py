"""Questions on a NATS subject, as mail of an actor: a Pump that joins, an operator, a reader."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from tidelog import messages
from tidelog.actor import Ref, Reply
from tidelog.errors import ActorStopped, Overloaded, TidelogError, UnparsablePayload
from tidelog.messages import Empty
from tidelog.ports import Bus, Request

MAX_QUESTIONS = 64
"""At once, for each subject."""

A = TypeVar("A", bound=msgspec.Struct)
M = TypeVar("M")


async def serve_questions(
    bus: Bus, subject: str, kind: type[A], actor: Ref[M], mail: Callable[[A, Reply[Any]], M]
) -> None:
    """Until it is cancelled. `mail` makes the actor's message from a question and the right to
    answer it, where None says no more than that it is done."""
    under_way = 0

    async def handle(request: Request) -> None:
        nonlocal under_way

        def settle(answer: msgspec.Struct | None, error: Exception | None) -> None:
            nonlocal under_way
            under_way -= 1
            if isinstance(error, TidelogError):
                request.respond(messages.encode_error(error))
            elif error is None:
                request.respond(messages.encode(answer or Empty()))

        try:
            asked = messages.decode(request.data, kind)
            if under_way >= MAX_QUESTIONS:
                raise Overloaded(f"{under_way} questions are under way")
            reply: Reply[Any] = actor.reply(settle)
            under_way += 1
            await actor.tell(mail(asked, reply))
        except (UnparsablePayload, Overloaded, ActorStopped) as error:
            request.respond(messages.encode_error(error))

    subscription = await bus.serve(subject, handle)
    try:
        await asyncio.get_running_loop().create_future()
    finally:
        await subscription.close()
