"""On a real server: a reader from before what the stream keeps gets all of it, over a restart."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.fixtures import capture
from tests.integration.drainer.fakes import CLUSTER, FEED
from tests.integration.drainer.rig import Rig, commit_times, run, until
from tests.integration.drainer.test_publish import Recorded, golden, recorded, split
from tests.servers import nats_server
from tidelog import subjects
from tidelog.change_reader import Change
from tidelog.messages import Consumer
from tidelog.rewind import RewindingReader


async def read_up_to(reader: RewindingReader, commit_ts: int, found: list[Change]) -> None:
    async with asyncio.timeout(60):
        while (reader.position or 0) < commit_ts:
            found += [change for change in await reader.next(0.2) if change.txns]


def test_what_the_stream_lost_comes_from_the_pumps(tmp_path: Path) -> None:
    """The stream was deleted and is filled from its only reader's position on: what lies below it
    no stream holds. Half of the replay is read before a restart of the Drainer, half behind it."""

    async def body(rig: Rig) -> None:
        txns = recorded()
        await split(rig, txns)
        half = golden()[len(golden()) // 2]
        async with rig.drainer():
            await rig.read(len(golden()))
            rig.registry.consumers = [Consumer("a1", FEED, golden()[-20])]
            await rig.bus.stream_delete(subjects.changes_stream(FEED))
            assert commit_times(await rig.read(19, golden()[-20])) == golden()[-19:]
            await until(lambda: "d1" in rig.registry.drainers, "the Drainer's heartbeat")
            reader = RewindingReader(rig.bus, CLUSTER, FEED, 0, reader="late")
            found: list[Change] = []
            await read_up_to(reader, half, found)
        async with rig.drainer() as status:
            await read_up_to(reader, golden()[-1], found)
            assert commit_times(found) == golden()
            rows = [len(message.events) for change in found for message in change.rows]
            assert sum(rows) == sum(len(txn.dmls) for txn in capture.golden())
            await reader.close()
            await until(lambda: not status()["rewinder"]["rewinds"], "the end of the replay")  # type: ignore[index]
            assert await rig.bus.stream_state(f"REPLAY_{FEED.upper()}_late") is None

    with nats_server(tmp_path) as server:
        run(server.url, tmp_path / "drainer", Recorded(), body)
