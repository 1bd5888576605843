"""A Pump that is killed under load keeps its word; Pumps that don't are caught (reliability R4)."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path

import pytest

from tests.integration.pump.kill_rig import FEWEST, Rig
from tests.integration.victim import Wrong
from tests.planted.bugs import Bug, Edit
from tests.planted.copy import PATHS, ROOT, copied, plant
from tests.servers import nats_server

KILLS = 10


def pump_file(name: str) -> str:
    (found,) = (ROOT / "services/pump").rglob(name)
    return str(found.relative_to(ROOT))


def test_nothing_is_lost_by_kills_under_load(tmp_path: Path) -> None:
    with nats_server(tmp_path) as nats:
        rig = Rig(nats, tmp_path, kills=KILLS, seed=7)
        asyncio.run(rig.run())
    print(rig.summary())
    assert rig.kills.total() == KILLS
    under_load = sum(count for moment, count in rig.kills.items() if moment != "start")
    assert rig.ledger.acked >= FEWEST * under_load / 2, "a quiet run proves nothing"
    assert rig.checked >= rig.ledger.acked / 2
    assert rig.large


BROKEN = (
    Bug(
        "an indexer that skips one record in 400",
        "loss",
        (
            Edit(
                pump_file("indexer.py"),
                "        for stored in records:\n            feed(stored, wall_ms)\n",
                "        for stored in records:\n"
                "            self.fed = getattr(self, 'fed', 0) + 1\n"
                "            if stored.kind is Kind.PREWRITE and self.fed % 400 < 2:\n"
                "                continue\n"
                "            feed(stored, wall_ms)\n",
            ),
        ),
    ),
    Bug(
        "a puller that drops the last of a full page",
        "loss",
        (
            Edit(
                pump_file("frames.py"),
                "            if len(page) < PAGE:\n                return frame, left_out\n",
                "            if len(page) < PAGE:\n"
                "                if len(frame.txns) > 3:\n"
                "                    del frame.txns[-1]\n"
                "                return frame, left_out\n",
            ),
        ),
    ),
    Bug(
        "a start that cuts off the last good record",
        "loss",
        (
            Edit(
                pump_file("opening.py"),
                "        good = await self._read_tail(fid, known)\n",
                "        good = await self._read_tail(fid, known)\n"
                "        for step in walk(file.read, 0, good):\n"
                "            good = step.records[-1][0] if step.records else good\n",
            ),
        ),
    ),
    Bug(
        "a start that forgets what is open",
        "was not read up to|had been resolved",
        (Edit(pump_file("indexer.py"), "last, pairing.opened(), end", "last, [], end"),),
    ),
    Bug(
        "a frame's bytes are not what was written",
        "are not what was written",
        (
            Edit(
                pump_file("frames.py"),
                '                payload = self._scan.payload(committed) if fits else b""\n',
                "                payload = self._scan.payload(committed)\n"
                "                if committed.start_ts % 64 == 0:\n"
                "                    payload = payload[:-1] + b'?'\n",
            ),
        ),
    ),
)


@pytest.mark.parametrize("bug", BROKEN, ids=lambda bug: bug.name)
def test_a_pump_that_breaks_its_word_is_caught(bug: Bug, tmp_path: Path) -> None:
    """Where a kill strikes is chance, and a record that nobody was told of is nobody's loss: what
    eight kills did not show, the next eight may."""
    copy, found = tmp_path / "copy", ""
    with copied() as whole:
        plant(bug, whole, copy)
        for seed in (3, 4, 5):
            found = found or _eight_kills(copy, tmp_path / str(seed), seed)
    assert re.search(bug.breaks, found), found or "not caught"


def _eight_kills(copy: Path, directory: Path, seed: int) -> str:
    """What is wrong, if anything."""
    directory.mkdir()
    with nats_server(directory) as nats:
        rig = Rig(nats, directory, kills=8, seed=seed)
        rig.victim.service.env["PYTHONPATH"] = os.pathsep.join(str(copy / part) for part in PATHS)
        try:
            asyncio.run(rig.run())
        except Wrong as wrong:
            return str(wrong)
    return ""
