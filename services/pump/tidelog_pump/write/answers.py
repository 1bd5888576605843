"""Lets answers out before more work is done: they take a few turns of the loop to the socket, and
whoever waits for them could be at work meanwhile, on another core."""

from __future__ import annotations

import asyncio

TURNS = 4
"""From an actor's answer through the bus's task and the client's flusher to the socket."""


async def answers_first() -> None:
    for _ in range(TURNS):
        await asyncio.sleep(0)
