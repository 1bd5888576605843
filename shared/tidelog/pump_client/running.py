"""What a client consists of runs as long as a block does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tidelog.actor import first_error
from tidelog.supervisor import Supervisor


@asynccontextmanager
async def running(supervisor: Supervisor) -> AsyncIterator[None]:
    """The supervisor's actors are stopped in order at the end of the block, cancelled if it fails.
    What escalates there cancels the block, and is raised as itself."""
    stop = asyncio.Event()
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(supervisor.run(stop), name=supervisor.name)
            try:
                yield
            finally:
                stop.set()
    except BaseExceptionGroup as errors:
        raise first_error(errors) from errors
