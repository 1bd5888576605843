"""All checks at once, each within its time: doctor ends in seconds, whatever is down."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from tidelog.errors import TidelogError
from tidelog_cli.doctor.finding import About, Finding

CHECK_S = 8.0
"""One that takes longer is given up, and says so."""


class Check(NamedTuple):
    """`look` returns what it found; a TidelogError of it is a finding, too."""

    name: str
    look: Callable[[], Awaitable[list[Finding]]]


async def examine(checks: Sequence[Check], deadline_s: float = CHECK_S) -> list[Finding]:
    """What they found, in their order."""
    results = await asyncio.gather(*(_one(check, deadline_s) for check in checks))
    return [finding for findings in results for finding in findings]


async def _one(check: Check, deadline_s: float) -> list[Finding]:
    about = About(check.name)
    try:
        async with asyncio.timeout(deadline_s):
            return await check.look()
    except TimeoutError:
        says = f"no answer within {deadline_s:.0f} s"
        return [about.wrong(says, "see whether it is frozen, or a firewall drops what we send")]
    except TidelogError as error:
        return [about.failed(error)]
