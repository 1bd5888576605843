"""Processes that die at a chosen call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tidelog.sim import Node


async def die(node: Node) -> None:
    node.kill()
    await asyncio.sleep(3600)


def after(
    patch: pytest.MonkeyPatch,
    owner: Any,
    when: Callable[..., bool],
    hit: list[Node],
    name: str = "write",
) -> None:
    """Kill the first of `hit` right after a matching call has returned."""
    real = getattr(owner, name)

    async def call(self: Any, *args: Any, **named: Any) -> Any:
        found = await real(self, *args, **named)
        if hit and when(*args):
            await die(hit.pop())
        return found

    patch.setattr(owner, name, call)


def before(
    patch: pytest.MonkeyPatch,
    owner: Any,
    when: Callable[..., bool],
    hit: list[Node],
    name: str = "write",
) -> None:
    """Kill it right before."""
    real = getattr(owner, name)

    async def call(self: Any, *args: Any, **named: Any) -> Any:
        if hit and when(*args):
            await die(hit.pop())
        return await real(self, *args, **named)

    patch.setattr(owner, name, call)
