"""Services that break a promise, and the kill rigs that have to catch them:
`python -m tests.planted.kills`. CI runs the rigs that take no minutes."""

from __future__ import annotations

import asyncio
import os
import re
import sys
import tempfile
from pathlib import Path

from tests.integration.drainer import kill_rig as drainer_rig
from tests.integration.pump import kill_rig as pump_rig
from tests.integration.victim import Wrong
from tests.planted.bugs import BY_NAME
from tests.planted.copy import PATHS, copied, plant
from tests.planted.killed import DRAINER, PUMP, Kill, of
from tests.servers import nats_server

RIGS: dict[str, tuple[type[pump_rig.Rig | drainer_rig.Rig], int]] = {
    PUMP: (pump_rig.Rig, 8),
    DRAINER: (drainer_rig.Rig, 6),
}
"""And how often each kills."""
SEEDS = (3, 4, 5)


def shown(kill: Kill, whole: Path, directory: Path) -> str:
    """What the rig says is wrong, if anything. Where a kill strikes is chance, and a record that
    nobody was told of is nobody's loss: what some kills did not show, the next ones may."""
    copy, found = directory / "copy", ""
    plant(BY_NAME[kill.bug], whole, copy)
    for seed in SEEDS:
        found = found or _killed(kill.rig, copy, directory / str(seed), seed)
    return found


def is_right(kill: Kill, found: str) -> bool:
    return bool(re.search(kill.says, found))


def _killed(name: str, copy: Path, directory: Path, seed: int) -> str:
    directory.mkdir()
    make, kills = RIGS[name]
    with nats_server(directory) as nats:
        rig = make(nats, directory, kills=kills, seed=seed)
        rig.victim.service.env["PYTHONPATH"] = os.pathsep.join(str(copy / part) for part in PATHS)
        try:
            asyncio.run(rig.run())
        except Wrong as wrong:
            return str(wrong)
    return ""


def main(argv: list[str]) -> int:
    """The Drainer's: all, or those that are named."""
    missed = 0
    with copied() as whole:
        for kill in [kill for kill in of(DRAINER) if not argv or kill.bug in argv]:
            with tempfile.TemporaryDirectory(prefix="broken-") as directory:
                found = shown(kill, whole, Path(directory))
            missed += not is_right(kill, found)
            word = "caught" if is_right(kill, found) else "NOT CAUGHT"
            print(f"{word:<11} {kill.bug:<34} by kills: {found}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
