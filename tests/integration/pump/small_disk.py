"""A Pump on a small file system that somebody else fills to the last byte; a process of its own, in
a mount namespace of its own (see test_disk_full.py):

    python -m tests.integration.pump.small_disk DIRECTORY NATS_URL fill|kill|mend...
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from pathlib import Path
from typing import Any

import msgspec

from tests.adapters.pump.rig import registry_and_client, running, until
from tests.adapters.pump.test_pump_http import CONFIG
from tests.unit.pump.rig import NODE, Client, Registry, commit, prewrite
from tidelog.supervisor import Supervisor
from tidelog.timestamps import TS_MAX
from tidelog_pump.config import StorageConfig
from tidelog_pump.log.reserve import RESERVE_FILE

KEPT_FREE = 4 << 20
SETTINGS = msgspec.structs.replace(
    CONFIG,
    oracle="embedded",
    gen_binlog_interval=0.2,
    segment_bytes=512 << 10,
    gc="1s",
    gc_interval="500ms",
    gc_hard_cap="1h",
    storage=StorageConfig(stop_write_at_available_space=KEPT_FREE),
)


def fill(path: Path) -> None:
    """Not a byte is left after it, be it of what another file's deletion gave back."""
    assert os.statvfs(path.parent).f_blocks * 4096 < 1 << 28, "never a machine's own disk"
    with path.open("ab", buffering=0) as file, contextlib.suppress(OSError):
        for size in (1 << 20, 4096, 1):
            with contextlib.suppress(OSError):
                while True:
                    file.write(bytes(size))
    state = os.statvfs(path.parent)
    assert state.f_bavail == 0, state


def shown(tree: Supervisor, actor: str) -> dict[str, Any]:
    found: Any = tree.status()[actor]
    return dict(found)


async def load(client: Client, registry: Registry, count: int = 32) -> list[int]:
    """Eight MiB, committed."""
    done = []
    for _ in range(count):
        start_ts = registry.allocate()
        await client.done(prewrite(start_ts, bytes(256 << 10)))
        done.append(registry.allocate())
        await client.done(commit(start_ts, done[-1]))
    return done


async def is_refused(client: Client, registry: Registry) -> None:
    start_ts = registry.allocate()
    for payload in (prewrite(start_ts), commit(start_ts, start_ts + 1)):
        (result,) = await client.write(payload)
        assert (result.code, result.definite) == ("DiskFull", True), result


async def collected(tree: Supervisor, registry: Registry) -> None:
    """By the gc's own run, once all who read have it: those who read here are forgotten by then."""
    registry.safe_point = TS_MAX
    await until(lambda: shown(tree, "gc")["first_segment"] > 5)
    await until(lambda: shown(tree, "writer")["disk_full"] is False)


async def filled(data: Path, tree: Supervisor, client: Client, registry: Registry) -> None:
    """Reads go on, anything else is refused for sure, and nobody dies of it."""
    await client.until_online()
    done = await load(client, registry)
    assert (data / RESERVE_FILE).stat().st_size == shown(tree, "identity")["reserve"] > 0
    fill(data.parent / "filler")
    await until(lambda: shown(tree, "writer")["free"] == 0)
    await is_refused(client, registry)
    found = await client.pull_up_to(done[-1], feed="new")
    assert [txn.commit_ts for txn in found] == done
    await until(lambda: bool(shown(tree, "puller")["unsaved"]))
    await until(lambda: "no space" in shown(tree, "faker")["last_error"])


async def mended(data: Path, tree: Supervisor, client: Client, registry: Registry) -> None:
    """By the gc's own run, once all who read have it: those who read here are forgotten by then."""
    assert len((await client.pull(0, feed="newer", max_bytes=1 << 20)).txns) > 0
    registry.safe_point = TS_MAX
    await until(lambda: shown(tree, "gc")["first_segment"] > 5)
    await until(lambda: shown(tree, "writer")["disk_full"] is False)
    await load(client, registry, 4)
    (data.parent / "filler").unlink()
    await until((data / RESERVE_FILE).exists)


async def main(directory: Path, url: str, ways: list[str]) -> None:
    data = directory / "data"
    async with registry_and_client(url, NODE) as (registry, client):
        registry.safe_point = 1
        async with running(SETTINGS, data, url) as tree:
            await until(lambda: tree.ready)
            if "fill" in ways:
                await filled(data, tree, client, registry)
            if "kill" in ways:
                os._exit(0)
            if "mend" in ways:
                await mended(data, tree, client, registry)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]))
    print("mended")
