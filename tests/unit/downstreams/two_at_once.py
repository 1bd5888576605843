"""A group of rows, whose keys are compared by Python, while it is asked for the rules of tables: as
the Applier does. `python -m tests.unit.downstreams.two_at_once DIRECTORY`: it ends, or never does.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import msgspec

from tests.unit.downstreams.shapes import column, created, ddl, share, table
from tests.unit.downstreams.test_sqlite import Rig, V, run
from tidelog.downstream import Checkpoint, Work

GROUPS, ROWS = 100, 200
KEY = column("k", "varchar(30)", collation="utf8mb4_general_ci")
TABLE = table("t", KEY, V, key=("k",))


async def scenario(rig: Rig) -> None:
    await rig.ddl(ddl("create_table", (None, TABLE)))
    rule, lane = await rig.downstream.rule("d", TABLE), await rig.downstream.lane(0)
    asking = asyncio.create_task(ask(rig))
    for group in range(GROUPS):
        rig.commit_ts += 1
        events = [created({"k": f"key {group} {n}", "v": "x"}) for n in range(ROWS)]
        shares = share("d", TABLE, rule, events)
        await lane.apply(Work(shares, checkpoint=Checkpoint(rig.commit_ts)))
    asking.cancel()
    await asyncio.wait([asking])
    assert asking.cancelled()


async def ask(rig: Rig) -> None:
    """Of structures that it does not know yet: it reads the table."""
    version = TABLE.version
    while True:
        version += 1
        await rig.downstream.rule("d", msgspec.structs.replace(TABLE, version=version))


if __name__ == "__main__":
    rig = run(Path(sys.argv[1]), scenario)
    assert rig.read('SELECT COUNT(v) FROM "d.t"') == [(GROUPS * ROWS,)]
