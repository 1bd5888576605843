"""Services that break a promise, and the rigs that have to catch them:
`python -m tests.planted.kills`, all of them or those that are named. CI has another test of each
bug (plays.py)."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from pathlib import Path

from tests.integration.membership import rig as membership_rig
from tests.integration.membership.script import Change, Step
from tests.kills import rig as town_rig
from tests.planted.bugs import BY_NAME
from tests.planted.copy import PATHS, copied, plant
from tests.planted.killed import KILLS, MEMBERSHIP, Kill
from tests.servers import nats_server
from tests.wrong import Wrong

CYCLES = 8
"""Of the kill rig."""
STEPS = {
    "source-0-not-asked-once-trusted": [Step(Change.JOIN_FROZEN, 2)],
    "offline-before-it-is-read": [Step(Change.JOIN, 2), Step(Change.OFFLINE_FROZEN, 2)],
    "closing-pump-let-go": [Step(Change.JOIN, 2), Step(Change.OFFLINE_FROZEN, 2)],
}
"""What the membership rig does to show a bug."""
SEEDS = (3, 4, 5)
SHOWN = 200
"""Characters of what a rig says."""


def shown(kill: Kill, whole: Path, directory: Path) -> str:
    """What the rig says is wrong, if anything. Where a kill strikes is chance, and a record that
    nobody was told of is nobody's loss: what some kills did not show, the next ones may."""
    copy, found = directory / "copy", ""
    plant(BY_NAME[kill.bug], whole, copy)
    path = os.pathsep.join(str(copy / part) for part in PATHS)
    for seed in SEEDS:
        found = found or _killed(kill, path, directory / str(seed), seed)
    return found


def _killed(kill: Kill, path: str, directory: Path, seed: int) -> str:
    directory.mkdir()
    run = _come_and_go if kill.dies == MEMBERSHIP else _die
    try:
        asyncio.run(run(kill, path, directory, seed))
    except Wrong as wrong:
        return str(wrong)
    return ""


async def _die(kill: Kill, path: str, directory: Path, seed: int) -> None:
    """Raises Wrong."""
    async with town_rig.staged(directory, seed, on_cycle=lambda _: None) as rig:
        for service in rig.town.services:
            service.env["PYTHONPATH"] = path
        await rig.run(lambda: rig.cycles(CYCLES, only=kill.dies))


async def _come_and_go(kill: Kill, path: str, directory: Path, seed: int) -> None:
    """Raises Wrong."""
    with nats_server(directory) as nats:
        rig = membership_rig.Rig(nats, directory, seed=seed)
        for service in rig.processes.all:
            service.env["PYTHONPATH"] = path
        await rig.run(STEPS[kill.bug])


def main(argv: list[str]) -> int:
    kills = [kill for kill in KILLS if not argv or kill.bug in argv]
    missed = 0
    with copied() as whole:
        for kill in kills:
            with tempfile.TemporaryDirectory(prefix="broken-") as directory:
                found = shown(kill, whole, Path(directory))
            right = kill.shown_by(found)
            missed += not right
            said = (found.splitlines() or ["nothing"])[0]
            word = "caught" if right else "NOT CAUGHT"
            print(f"{word:<11} {kill.bug:<34} by kills: {said[:SHOWN]}")
    print(f"{len(kills) - missed} of {len(kills)} planted bugs caught by kills")
    return 1 if missed or not kills else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
