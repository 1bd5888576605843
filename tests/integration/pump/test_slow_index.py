"""A Pump process whose index is slow for a while (issue 4, Done 6), by an armed failpoint."""

from __future__ import annotations

import asyncio
import json
import re
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.pump.rig import registry_and_client
from tests.integration.pump_client.cluster import Service
from tests.servers import nats_server
from tests.unit.pump.rig import CLUSTER, CLUSTER_ID, NODE, Client, commit, prewrite
from tidelog.real.clock import RealClock
from tidelog.timestamps import compose
from tidelog_pump.index.chase import COOLDOWN_S

BUFFER = 64 << 10
CLIENTS, BATCHES, BATCH = 16, 25, 20
TRANSACTIONS = CLIENTS * BATCHES * BATCH
BODY = b"b" * 512
MIB = 1 << 20
GROWTH = 64 * MIB


def resident(pid: int) -> int:
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) << 10


async def status(directory: Path) -> dict[str, Any]:
    address = (directory / "http").read_text().strip()

    def get() -> dict[str, Any]:
        with urllib.request.urlopen(f"http://{address}/status", timeout=10) as answer:
            found: dict[str, Any] = json.loads(answer.read())
        return found

    found = await asyncio.to_thread(get)
    inner: dict[str, Any] = found.get("actors", found)
    return inner


async def until_off(directory: Path) -> None:
    """A try that a loaded machine made too slow is followed by one a minute later."""
    async with asyncio.timeout(2 * COOLDOWN_S):
        while True:
            if not (await status(directory))["chaser"]["on"]:
                return
            await asyncio.sleep(0.1)


async def load(client: Client, base: int, number: int) -> dict[int, int]:
    """One client's transactions, BATCH Prewrites at once, then their Commits."""
    acked: dict[int, int] = {}
    step = 10 * CLIENTS * BATCH
    for batch in range(BATCHES):
        first = base + batch * step + number * BATCH
        await client.done(*(prewrite(first + n, BODY) for n in range(BATCH)))
        # Above every Prewrite of this round: as if the oracle were asked now.
        ends = {first + n: first + n + step // 2 for n in range(BATCH)}
        await client.done(*(commit(*pair) for pair in ends.items()))
        acked |= ends
    return acked


async def measured(client: Client, base: int) -> tuple[dict[int, int], float]:
    """What was acked, and in how many seconds."""
    clock = RealClock()
    began = clock.monotonic()
    acked: dict[int, int] = {}
    for found in await asyncio.gather(*(load(client, base, n) for n in range(CLIENTS))):
        acked |= found
    return acked, clock.monotonic() - began


def test_a_slow_index_costs_nobody_an_ack_and_memory_stays_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stall = tmp_path / "stall"

    async def main(url: str, pump: Service) -> None:
        async with registry_and_client(url, NODE) as (_, client):
            client.timeout_s = 30.0
            pump.start()
            await client.until_online()
            assert pump.process is not None
            before = resident(pump.process.pid)
            base = compose(RealClock().wall_ms())
            stall.touch()
            acked, slow_s = await measured(client, base)
            seen = await status(pump.directory)
            chaser = seen["chaser"]
            grown = resident(pump.process.pid) - before
            # Everybody is answered, and the index has taken nothing.
            assert chaser["on"], seen
            assert len(acked) == TRANSACTIONS
            assert chaser["records"] == 0
            assert seen["indexer"]["mailbox_bytes"] <= BUFFER + (128 << 10)
            assert seen["sorter"]["open"] < TRANSACTIONS // 2
            frame = await client.pull(0, wait_ms=0)
            assert frame.resolved_ts < max(acked.values())
            stall.unlink()
            began = RealClock().monotonic()
            await until_off(pump.directory)
            off_s = RealClock().monotonic() - began
            found = await client.pull_up_to(max(acked.values()))
            assert {t.start_ts: t.commit_ts for t in found} == acked
            assert len(found) == len(acked)
            again, usual_s = await measured(client, max(acked.values()) + 1)
            more = await client.pull_up_to(max(again.values()), max(acked.values()))
            assert {t.start_ts: t.commit_ts for t in more} == again
            print(
                f"{TRANSACTIONS} transactions acked in {slow_s:.2f} s beside a slow index, in"
                f" {usual_s:.2f} s later; memory grew by {grown / MIB:.1f} MiB meanwhile; off"
                f" {off_s:.2f} s after the index went on"
            )
            assert grown < GROWTH

    with nats_server(tmp_path / "nats") as server:
        flags = ["--nats-url", server.url, "--node-id", NODE, "--cluster", CLUSTER]
        flags += ["--cluster-id", str(CLUSTER_ID), "--oracle", "follow"]
        flags += ["--index-buffer-bytes", str(BUFFER), "--segment-bytes", str(2 * MIB)]
        monkeypatch.setenv("TIDELOG_FAILPOINTS", f"pump.indexer.before_write=stall:{stall}")
        pump = Service("tidelog_pump", tmp_path / "pump", flags)
        try:
            asyncio.run(main(server.url, pump))
        finally:
            pump.kill()
