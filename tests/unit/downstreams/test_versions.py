"""What a downstream knows of its tables does not grow with their versions."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path

import msgspec
import pytest

from tests.unit.downstreams.shapes import column, created, ddl, table
from tidelog.downstream import Checkpoint, DownstreamOptions, TableShare, Work
from tidelog.downstreams import open_downstream

T = table("t", column("id", "int(11)", nullable=False), key=("id",))
VERSIONS, WARM = 200, 50


@pytest.mark.parametrize("url", ["blackhole:", "file://{}", "sqlite:///{}/down.db"])
def test_each_version_replaces_the_one_before(url: str, tmp_path: Path) -> None:
    async def scenario() -> tuple[int, int]:
        downstream = open_downstream(DownstreamOptions(url=url.format(tmp_path)))
        await downstream.open("f")
        lane = await downstream.lane(0)
        last, warm = None, 0
        for version in range(1, VERSIONS + 1):
            after = Checkpoint(2 * version, feed="f")
            new = msgspec.structs.replace(T, version=version)
            kind = "add_index" if last is not None else "create_table"
            message = msgspec.structs.replace(ddl(kind, (last, new)), commit_ts=2 * version)
            await downstream.apply_ddl(message, after)
            event = msgspec.structs.replace(created({"id": version}), commit_ts=2 * version + 1)
            share = TableShare("d", new, events=[event])
            rows = msgspec.structs.replace(after, commit_ts=2 * version + 1)
            await lane.apply(Work([share], checkpoint=rows))
            last = new
            if version == WARM:
                warm = objects()
        return warm, objects()

    warm, at_the_end = asyncio.run(scenario())
    assert at_the_end < warm + VERSIONS - WARM


def objects() -> int:
    gc.collect()
    return len(gc.get_objects())
