"""A question to the registry of a cluster, as its subjects have it (design section 5)."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from tidelog import subjects
from tidelog.errors import Unavailable
from tidelog.messages import Empty, Nodes, decode_reply, encode
from tidelog.ports import Bus

S = TypeVar("S", bound=msgspec.Struct)

HEARD_S = 10.0
"""A registry that has just started, or lost what it knew, has heard by then of all Drainers and
Appliers that live."""


async def ask(
    bus: Bus, cluster: str, verb: str, body: msgspec.Struct, kind: type[S], *, timeout_s: float
) -> S:
    """Its answer, of the given kind. Raises Unavailable (it may have heard: each question may be
    asked again), and what the registry refuses with."""
    subject = subjects.registry(cluster, verb)
    try:
        answer = await bus.request(subject, encode(body), timeout_s=timeout_s)
    except Unavailable as error:
        raise Unavailable(
            f"the registry of cluster {cluster!r} does not answer: {error.message}",
            hint="ask again (that changes nothing that was done already) once it runs; "
            "or is it another cluster's name?",
        ) from error
    return decode_reply(answer.data, kind)


async def nodes(bus: Bus, cluster: str, *, timeout_s: float) -> Nodes:
    """Everything the registry knows. Raises Unavailable."""
    return await ask(bus, cluster, "nodes", Empty(), Nodes, timeout_s=timeout_s)
