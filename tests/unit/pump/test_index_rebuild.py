"""An index that is missing, behind, ahead, of another log, or that fails while it is used."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import cast

import pytest

from tests.unit.pump.rig import CONFIG, NODE, Client, commit, prewrite, start, ts_now
from tidelog.errors import DiskFull, TidelogError
from tidelog.ports import IndexStore
from tidelog.sim import World, run
from tidelog.sim.index import SimIndexFile
from tidelog.sim.node import Node
from tidelog.supervisor import Supervisor
from tidelog_pump.index import keys
from tidelog_pump.parts import INDEX, open_index


async def some(client: Client, base: int, count: int = 40) -> dict[int, int]:
    """start_ts -> commit_ts of what was acked; the last one stays open."""
    for n in range(count):
        await client.done(
            prewrite(base + 4 * n, b"row" * n), commit(base + 4 * n, base + 4 * n + 1)
        )
    await client.done(prewrite(base + 4 * count))
    return {base + 4 * n: base + 4 * n + 1 for n in range(count)}


def no_head(stored: SimIndexFile) -> None:
    stored.apply((), [keys.HEAD_KEY])


def mad_head(stored: SimIndexFile) -> None:
    stored.apply([(keys.HEAD_KEY, b"\x01\x02")], ())


def head_within_a_record(stored: SimIndexFile) -> None:
    head = keys.unpack_head(stored.entries[keys.HEAD_KEY])
    moved = head._replace(offset=head.offset - 5)
    stored.apply([(keys.HEAD_KEY, keys.pack_head(moved))], ())


def head_beyond(stored: SimIndexFile) -> None:
    head = keys.unpack_head(stored.entries[keys.HEAD_KEY])
    stored.apply([(keys.HEAD_KEY, keys.pack_head(head._replace(fid=head.fid + 3)))], ())


def behind(stored: SimIndexFile) -> None:
    """The log is read from its head on, once more."""
    before = stored.without_last(stored.unsynced // 2)
    assert before.entries[keys.HEAD_KEY] != stored.entries[keys.HEAD_KEY]
    stored.entries, stored.keys = before.entries, before.keys


def broken(stored: SimIndexFile) -> None:
    stored.broken = True


def emptied(stored: SimIndexFile) -> None:
    stored.apply((), list(stored.keys))


@pytest.mark.parametrize(
    "harm", [no_head, mad_head, head_within_a_record, head_beyond, behind, broken, emptied]
)
def test_whatever_is_wrong_with_it_the_log_makes_it_good(
    harm: Callable[[SimIndexFile], None],
) -> None:
    async def main(world: World) -> None:
        _, client = await start(world, CONFIG)
        base = ts_now(world)
        acked = await some(client, base)
        pump: Node = world.node(NODE)
        whole = dict(pump.indexes[INDEX].entries)
        await pump.stop()
        # What a foreign one could have beside: it must not be read for ours.
        strange = base + 3
        lie = keys.pack_transaction(keys.State.COMMITTED, strange + 1, keys.NOWHERE)
        if harm is not behind:
            pump.indexes[INDEX].apply([(keys.transaction_key(strange), lie)], ())
        harm(pump.indexes[INDEX])
        pump.restart()
        await client.until_online()
        assert pump.indexes[INDEX].entries == whole
        last = base + 1000
        opened = base + 4 * len(acked)
        await client.done(commit(opened, last))
        found = {t.start_ts: t.commit_ts for t in await client.pull_up_to(last)}
        assert found == acked | {opened: last}
        assert not pump.failures

    run(main, 41)


def test_who_asks_a_pump_that_stops_finds_its_index_open() -> None:
    """A Prometheus, a health check: what it met was taken for damage, and built again."""

    async def main(world: World) -> None:
        _, client = await start(world, CONFIG)
        await some(client, ts_now(world))
        pump: Node = world.node(NODE)
        stopping = asyncio.create_task(pump.stop())
        said: list[dict[str, dict[str, object]]] = []
        while not stopping.done():
            said.append(cast(Supervisor, pump.service).status())
            await asyncio.sleep(0)
        assert any("indexer" in one for one in said)
        assert any("indexer" not in one and "index" in one for one in said)
        assert not [one for one in said for actor in one.values() if "not_ready" in actor]

    run(main, 7)


@pytest.mark.parametrize("seed", range(6))
def test_one_that_fails_while_it_is_used_ends_the_process_and_is_built_again(seed: int) -> None:
    """Whoever meets it: a writer, a reader, or nobody but the look once a second."""

    async def main(world: World) -> None:
        _, client = await start(world, CONFIG)
        base = ts_now(world)
        acked = await some(client, base)
        pump: Node = world.node(NODE)
        pump.indexes[INDEX].failing = True
        if seed % 3 == 0:
            await _write(client, prewrite(base + 1000), commit(base + 1000, base + 1001))
        elif seed % 3 == 1:
            frame = await client.pull(0, wait_ms=0)
            assert frame.code == "IoFailed"
        else:
            pump.indexes[INDEX].broken = True
        await world.until(lambda: bool(pump.failures), 5, "the process to end")
        assert type(pump.failures[0]).__name__ == "IoFailed"
        await client.until_online()
        last = base + 2000
        opened = base + 4 * len(acked)
        await client.done(commit(opened, last))
        found = {t.start_ts: t.commit_ts for t in await client.pull_up_to(last)}
        found.pop(base + 1000, None)
        assert found == acked | {opened: last}
        assert len(pump.failures) == 1
        await asyncio.sleep(5)
        assert len(pump.failures) == 1

    run(main, seed)


def test_the_status_of_a_pump_whose_index_fails_can_be_read() -> None:
    """Simulated seed 103: it raised, in the moment when somebody wants to know."""

    async def main(world: World) -> None:
        _, client = await start(world, CONFIG)
        await some(client, ts_now(world))
        pump: Node = world.node(NODE)
        pump.indexes[INDEX].failing = True
        status = pump.service.status()
        assert "the index fails" in status["indexer"]["not_ready"]
        assert "open" in status["sorter"]
        await world.until(lambda: bool(pump.failures), 5, "the process to end")

    run(main, 41)


async def _write(client: Client, *payloads: bytes) -> None:
    """Acked or not: the indexer comes after."""
    with contextlib.suppress(TidelogError):
        await client.write(*payloads)


@pytest.mark.parametrize("taken_too", [False, True])
def test_one_that_finds_no_room_to_be_opened_makes_room_by_going(taken_too: bool) -> None:
    """Unless somebody else takes that, too."""

    async def main(world: World) -> None:
        ports = world.node(NODE).ports()
        dropped: list[str] = []

        def opened(path: str) -> IndexStore:
            if taken_too or not dropped:
                raise DiskFull("no room")
            return ports.open_index(path)

        full = replace(ports, open_index=opened, drop_index=dropped.append)
        with pytest.raises(DiskFull) if taken_too else contextlib.nullcontext():
            open_index(full).close()
        assert dropped == [INDEX]

    run(main)
