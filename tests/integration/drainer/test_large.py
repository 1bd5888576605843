"""Large transactions on a real server: bounded memory, kills between the parts, a stream that has
no room, one that is too small, and filtered ones."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.integration.drainer import large_rig
from tests.integration.drainer.fakes import FEED, FakePump
from tests.integration.drainer.large_rig import Outcome, play
from tests.integration.drainer.rig import Rig, commit_times, run, until
from tests.last_line import ZEROS
from tests.servers import nats_server
from tests.unit.drainer.test_large import large
from tests.unit.drainer.test_simulated import DDLS, OneTable, txn
from tidelog import subjects
from tidelog.change_reader import ChangeReader
from tidelog.schema.model import DdlJob
from tidelog_drainer.publish import intake

STREAM = subjects.changes_stream(FEED)
ROWS = 20_000
SMALL = {"spool_above": 64 << 10, "batch_bytes": 512 << 10}


class History(OneTable):
    async def jobs(self, after_job_id: int) -> AsyncIterator[list[DdlJob]]:
        async for page in super().jobs(after_job_id):
            yield page


def test_one_of_64_mib_and_a_drainer_killed_between_its_parts(tmp_path: Path) -> None:
    outcome = asyncio.run(play(tmp_path / "stage", mib=64, rows=60_000, kills=2))
    print(outcome)
    assert not outcome.wrong(kills=2)
    assert outcome.abandoned == 2


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, ""),
        ({"peak": 140.0}, "it took 80 MiB more than before, of 77"),
        ({"after": 95.0}, "it still has 35 MiB more than before"),
        ({"abandoned": 2}, "2 attempts of 3"),
    ],
)
def test_memory_that_does_not_come_back_and_kills_that_met_nothing_are_wrong(
    changes: dict[str, Any],
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fine = Outcome(1536, 5_000_000, 60.0, 76.0, 70.0, 30.0, 6000, 3, 900, 1.0, 0.8)

    async def played(*directory: Path, **options: object) -> Outcome:
        return fine._replace(**changes)

    monkeypatch.setattr(large_rig, "play", played)
    monkeypatch.setattr("sys.argv", ["large_rig", "--kills", "3"])
    assert large_rig.main() == (1 if told else 0)
    *others, last = capsys.readouterr().out.splitlines()
    assert last == f"large transactions: 901 cases, {'1 WRONG' if told else ZEROS} (seed 1)"
    assert not told or others[-1].startswith(told)


async def limited(rig: Rig, **config: object) -> None:
    """Change the stream's configuration, as an operator does."""
    info = await rig.bus.request(f"$JS.API.STREAM.INFO.{STREAM}", b"", timeout_s=5)
    changed = json.loads(info.data)["config"] | config
    answer = await rig.bus.request(
        f"$JS.API.STREAM.UPDATE.{STREAM}", json.dumps(changed).encode(), timeout_s=5
    )
    assert "error" not in json.loads(answer.data), answer.data


async def begun(rig: Rig) -> FakePump:
    pump = await rig.registry.pump("pump-1")
    pump.commit([*DDLS, txn(10)], 10)
    return pump


def test_a_full_stream_is_waited_for_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own limit under discard new; nothing is lost, and the Pump isn't read any further."""
    monkeypatch.setattr(intake, "QUEUE_BYTES", 100_000)

    async def body(rig: Rig) -> None:
        pump = await begun(rig)
        async with rig.drainer(**SMALL, source_buffer_bytes=100_000) as status:
            await rig.read(3)
            await limited(rig, discard="new", max_bytes=300_000)
            txns = [large(20 + 10 * n, ROWS) for n in range(8)]
            pump.commit(txns, 100)

            def waits() -> bool:
                return "max_file_store" in str(status()["publisher"]["waiting"])  # type: ignore[index]

            await until(waits, "the wait")
            assert "maximum bytes exceeded" in str(status()["publisher"]["waiting"])  # type: ignore[index]

            def source() -> dict[str, int]:
                return status()["collector"]["sources"]["pump-1"]  # type: ignore[index, no-any-return]

            await until(lambda: source()["bytes"] > 0, "a buffer that nobody empties")
            assert source()["after_ts"] < 100
            assert status()["publisher"]["not_ready"] == ""  # type: ignore[index]
            await limited(rig, max_bytes=1 << 30)
            found = await rig.read(11)
            assert commit_times(found) == [2, 4, 10, *(one[0] for one in txns)]
            assert sum(txn.rows for change in found for txn in change.txns) == 8 * (ROWS + 2) + 1

    with nats_server(tmp_path) as server:
        run(server.url, tmp_path / "drainer", History(), body)


def test_a_stream_that_one_transaction_overflows_stops_typed(tmp_path: Path) -> None:
    async def body(rig: Rig) -> None:
        pump = await begun(rig)
        async with rig.drainer(**SMALL):
            await rig.read(3)
        await limited(rig, max_bytes=700_000)
        async with rig.drainer(**SMALL) as status:
            pump.commit([txn(15), large(20, ROWS), txn(30)], 30)
            await until(lambda: bool(status()["publisher"]["error"]), "a typed stop")  # type: ignore[index]
            assert "changes-max-bytes" in str(status()["publisher"]["error"])  # type: ignore[index]
            assert status()["publisher"]["published_ts"] == 15  # type: ignore[index]
        await limited(rig, max_bytes=1 << 30)
        async with rig.drainer(**SMALL):
            assert commit_times(await rig.read(2, 15)) == [20, 30]

    with nats_server(tmp_path) as server:
        run(server.url, tmp_path / "drainer", History(), body)


def test_a_slow_server_and_one_killed_between_the_parts(tmp_path: Path) -> None:
    with nats_server(tmp_path) as server:

        async def body(rig: Rig) -> None:
            pump = await begun(rig)
            async with rig.drainer(**SMALL) as status:
                await rig.read(3)
                pump.commit([large(20, 4 * ROWS), txn(30)], 30)
                before = status()["publisher"]["sequence"]  # type: ignore[index]
                await until(lambda: status()["publisher"]["sequence"] > before, "a part")  # type: ignore[index]
                server.kill()
                await asyncio.sleep(0.2)
                server.start()
                found = await rig.read(5)
                assert commit_times(found) == [2, 4, 10, 20, 30]
                assert [txn.rows for change in found for txn in change.txns][3] == 4 * ROWS + 2

        run(server.url, tmp_path / "drainer", History(), body)


def test_a_filtered_one_moves_the_watermark_and_nothing_else(tmp_path: Path) -> None:
    async def body(rig: Rig) -> None:
        pump = await begun(rig)
        async with rig.drainer(**SMALL, ignore_schemas=("app",)) as status:
            pump.commit([large(20, ROWS)], 20)
            reader = ChangeReader(rig.bus, FEED, 0)
            while (reader.position or 0) < 20:
                for change in await reader.next(0.5):
                    assert not change.txns
            await reader.close()
            assert msgspec.json.encode(status()["publisher"]["dropped"]).count(b":") == 1  # type: ignore[index]

    with nats_server(tmp_path) as server:
        run(server.url, tmp_path / "drainer", History(), body)
