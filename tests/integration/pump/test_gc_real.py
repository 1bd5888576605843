"""Retention on a real disk, a real index and both ways of pulling."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import grpc
import msgspec
import pytest

from tests.adapters.pump.rig import GrpcClient, registry_and_client, running, until
from tests.adapters.pump.test_pump_real import config
from tests.servers import nats_server
from tests.unit.pump.rig import NODE, commit, prewrite
from tidelog.real.clock import RealClock
from tidelog.supervisor import Supervisor
from tidelog.timestamps import TS_MAX, compose


def gc_ts(tree: Supervisor) -> int:
    found: Any = tree.status()["gc"]
    return int(found["gc_ts"])


def test_old_segments_go_and_a_reader_from_below_is_told_where_to_begin(tmp_path: Path) -> None:
    async def main(url: str) -> None:
        settings = msgspec.structs.replace(
            config(tmp_path, 7), segment_bytes=4096, gc="1s", gc_hard_cap="1h", gc_interval="500ms"
        )
        data = tmp_path / "data"
        async with registry_and_client(url, NODE) as (registry, client):
            async with running(settings, data, url) as tree:
                await client.until_online()
                base = compose(RealClock().wall_ms()) - 1000
                for n in range(0, 100, 2):
                    await client.done(
                        prewrite(base + n, b"r" * 1000), commit(base + n, base + n + 1)
                    )
                kept = sorted((data / "value").glob("*.vlog"))
                assert gc_ts(tree) == 0
                registry.safe_point = TS_MAX
                await until(lambda: gc_ts(tree) > base)
                # A run of its own, after the one that moved the point.
                point = (await client.control("gc"))["purge_ts"]
                assert isinstance(point, int)
                left = sorted((data / "value").glob("*.vlog"))
                assert len(left) < len(kept)
                assert left == [path for path in kept if path in left]
                ours = GrpcClient(str(tree.status()["grpc"]["bound"]), 7)
                with pytest.raises(grpc.aio.AioRpcError) as refused:
                    await anext(ours.pull(0))
                assert refused.value.code() is grpc.StatusCode.OUT_OF_RANGE
                assert str(point) in (refused.value.details() or "")
                frame = await client.pull(0)
                assert frame.code == "Purged"
                assert str(point) in frame.message
                rest = await client.pull_up_to(base + 99, point)
                assert [t.commit_ts for t in rest] == list(range(point + 2, base + 100, 2))
                await ours.close()
            shutil.rmtree(data / "kv")
            async with running(settings, data, url) as tree:
                await client.until_online()
                assert tree.status()["indexer"]["unpaired"] == 0
                assert gc_ts(tree) >= point

    with nats_server(tmp_path) as server:
        asyncio.run(main(server.url))
