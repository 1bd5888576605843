"""The kill rig's load in a simulated cluster: rows are written into tables that are altered."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.kills import writer
from tests.kills.judge import Judge
from tests.kills.ledger import LedgerFile, Line
from tests.unit.pump_client.shore import FEED, Shore
from tidelog.pump_client import Writer
from tidelog.sim.world import World, run
from tidelog.subscriber.subscription import of_transactions
from tidelog.subscriber.tables import Tables

CLIENTS, RATE, LOAD_S = 16, 40, 15.0


class InMemory(LedgerFile):
    """Nobody loses power."""

    async def durable(self, line: Line) -> None:
        self.write(line)


@pytest.fixture(name="ledger")
def _ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemory]:
    monkeypatch.setattr(writer, "CLIENTS", CLIENTS)
    with closing(InMemory(tmp_path / "ledger")) as made:
        yield made


@pytest.mark.parametrize(("seed", "dies"), [(0, False), (0, True), (1, True)])
def test_no_row_comes_before_the_ddl_of_its_columns(
    ledger: InMemory, tmp_path: Path, seed: int, dies: bool
) -> None:
    """Rows of a new schema version have smaller commit_ts than its DDL's binlog, or much smaller
    where a writer left that half done; and the Drainer dies in between."""

    async def main(world: World) -> None:
        shore, judge, loads = Shore(world), Judge(tmp_path / "ledger", FEED), list[writer.Load]()
        changes = of_transactions(world.ports().bus, FEED, 0, Tables(), 8 << 20)

        async def app(client: Writer) -> None:
            await writer.prepare(client)
            loads.append(writer.Load(client, ledger, ledger.begin_life(), RATE, seed))
            await loads[0].run()

        async def read() -> None:
            async for txn in changes:
                judge.take(txn)

        app_node = shore.start("app", app)
        reading = world.loop.create_task(read())
        await world.until(lambda: bool(loads), 60, "the load")
        rng, end = world.random("deaths"), world.loop.time() + LOAD_S
        while world.loop.time() < end and not reading.done():
            await world.sleep(0.5 + 2 * rng.random())
            if dies:
                world.node("drainer").kill(restart_after_s=rng.random() / 3)
        loads[0].stop.set()
        await world.sleep(5)
        judge.look()

        def passed() -> bool:
            return reading.done() or changes.watermark >= judge.last_acked

        await world.until(passed, 60, "the end")
        if reading.done():
            reading.result()
        reading.cancel()
        judge._changes = changes
        judge.settle()
        assert judge.early
        assert judge.acked > LOAD_S * RATE / 2
        assert not app_node.failures

    run(main, seed)
