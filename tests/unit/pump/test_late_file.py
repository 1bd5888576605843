"""The verdicts beside the index, asked for at once by the verifier and by an operator."""

from __future__ import annotations

import asyncio

from tidelog.sim import World, run
from tidelog_pump.late.late_file import LateFile
from tidelog_pump.log.reserve import Reserve


def test_what_an_operator_accepts_meanwhile_is_not_missed() -> None:
    """The verdict waits for the file while that takes the operator's word."""

    async def main(world: World) -> None:
        disk = world.ports("pump").disk
        file = LateFile(disk, Reserve(disk))
        _, missed = await asyncio.gather(file.accept(5, 9), file.miss(5, 9))
        assert not missed
        assert await file.miss(7, 11)
        kept = LateFile(disk, Reserve(disk))
        kept.load()
        assert (kept.missing, kept.accepted) == ({7: 11}, {5: 9})

    run(main, 1)
