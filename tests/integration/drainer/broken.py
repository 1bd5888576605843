"""Drainers that break a promise, and the kill rig that has to catch them:
`python -m tests.integration.drainer.broken`."""

from __future__ import annotations

import asyncio
import os
import re
import sys
import tempfile
from pathlib import Path

from tests.integration.drainer.kill_rig import Rig
from tests.integration.victim import Wrong
from tests.planted.bugs import DRAINER, Bug, Edit
from tests.planted.copy import PATHS, copied, plant
from tests.servers import nats_server

KILLS = 6

BROKEN = (
    Bug(
        "a position taken from the newest message, be its batch whole or not",
        "loss",
        (
            Edit(
                f"{DRAINER}/publish/position.py",
                "msgspec.json.decode(watermark.data, type=Watermark) if watermark else None,\n",
                "Watermark(\n"
                "            int(newest.headers[changes.H_LAST_TS]),\n"
                "            int(marker.headers[changes.H_LAST_TS]) if marker else 0,\n"
                "        )\n"
                "        if newest\n"
                "        else None,\n",
            ),
        ),
    ),
    Bug(
        "a position that is the first transaction of the last marker",
        "twice|below the marker",
        (
            Edit(
                f"{DRAINER}/publish/position.py",
                "        last = [self.marker.txns[-1].commit_ts] if",
                "        last = [self.marker.txns[0].commit_ts - 1] if",
            ),
        ),
    ),
    Bug(
        "a life that begins its chain of markers anew",
        "prev_commit_ts",
        (
            Edit(
                f"{DRAINER}/publish/position.py",
                "begin, prev = tail.commit_ts, tail.prev_commit_ts\n",
                "begin, prev = tail.commit_ts, 0\n",
            ),
        ),
    ),
)


def caught(bug: Bug, whole: Path, directory: Path) -> str:
    """What the rig says is wrong, if anything. Where a kill strikes is chance: what some kills did
    not show, the next ones may."""
    copy, found = directory / "copy", ""
    plant(bug, whole, copy)
    for seed in (3, 4, 5):
        found = found or _kills(copy, directory / str(seed), seed)
    return found


def _kills(copy: Path, directory: Path, seed: int) -> str:
    directory.mkdir()
    with nats_server(directory) as nats:
        rig = Rig(nats, directory, kills=KILLS, seed=seed)
        rig.victim.service.env["PYTHONPATH"] = os.pathsep.join(str(copy / part) for part in PATHS)
        try:
            asyncio.run(rig.run())
        except Wrong as wrong:
            return str(wrong)
    return ""


def main(argv: list[str]) -> int:
    """Those whose names hold one of the words given, or all."""
    missed = 0
    with copied() as whole:
        for bug in [bug for bug in BROKEN if not argv or any(word in bug.name for word in argv)]:
            with tempfile.TemporaryDirectory(prefix="broken-") as directory:
                found = caught(bug, whole, Path(directory))
            right = bool(re.search(bug.breaks, found))
            missed += not right
            print(f"{'caught' if right else 'NOT CAUGHT'}: {bug.name}: {found}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
