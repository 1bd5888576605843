"""A record of the log that can't be read any more, for those who show or export it: told, counted,
and the others go on."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.kernel.test_payload import KEY, LONG_TP, number
from tests.unit.pump.rig import NODE, commit, prewrite, start, ts_now
from tests.unit.pump.test_stranded_sim import come_back, exported, filled, shown, tombstone
from tidelog.errors import Conflict, Corrupt
from tidelog.messages import encode_error
from tidelog.ports import Request
from tidelog.routes import find
from tidelog.sim import World, run
from tidelog_pump.edges import lookup
from tidelog_pump.index.indexer import read_back
from tidelog_pump.log.place import Pointer
from tidelog_pump.log.segments import Segments


class Damaged:
    """The records that hold these bytes."""

    def __init__(self, patch: pytest.MonkeyPatch, part: bytes) -> None:
        real = Segments.payload

        def payload(segments: Segments, pointer: Any) -> bytes:
            found = real(segments, pointer)
            if part in found:
                raise Corrupt("value/000000.vlog: a bad checksum")
            return found

        patch.setattr(Segments, "payload", payload)


def test_an_export_counts_and_names_what_it_lacks_and_has_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main(world: World) -> None:
        _, client = await start(world)
        base = await filled(world, client)
        await client.done(prewrite(base + 80, b"damaged"), commit(base + 80, base + 81))
        await client.until_state(base + 80, "committed")
        Damaged(monkeypatch, b"damaged")
        await tombstone(world, base + 31)
        await come_back(world)
        told, records = exported(world, base + 31)
        assert (told.committed, told.unreadable, told.open, told.unpaired) == (1, 1, 1, 1)
        assert told.unreadable_names == [f"{base + 80}: value/000000.vlog: a bad checksum"]
        assert (1, base + 40, base + 41) in records
        assert all(start_ts != base + 80 for _, start_ts, _ in records)
        assert "1 that can't be read" in shown(world)["why"]

    run(main, 1)


def test_what_can_t_be_shown_says_why_beside_what_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main(world: World) -> None:
        _, client = await start(world)
        base = ts_now(world)
        for at, value in ((0, b"damaged"), (10, b"x" * 2000)):
            await client.done(prewrite(base + at, value), commit(base + at, base + at + 1))
            await client.until_state(base + at, "committed")
        Damaged(monkeypatch, b"damaged")
        monkeypatch.setattr(lookup, "SHOWN_BYTES", 1000)

        async def ask(ts: int) -> lookup.Shown:
            found = find(world.node(NODE).service.routes, "GET", f"/debug/binlog/{ts}")
            assert found.route is not None
            (one,) = (await found.route.handler(found.given)).found
            assert isinstance(one, lookup.Shown)
            return one

        damaged, large = await ask(base), await ask(base + 11)
        assert (damaged.state, damaged.commit_ts) == ("committed", base + 1)
        assert damaged.record is large.record is None
        assert "a bad checksum" in damaged.error
        assert "are too many to show" in large.error
        assert large.bytes > 1000

    run(main, 2)


def test_bytes_that_are_no_binlog_are_shown_as_that() -> None:
    assert lookup.describe(b"\xff\xff").type == "no readable binlog"


def test_a_node_id_that_another_has_ends_the_pump() -> None:
    """A registry's word that stays is no reason to ask again."""

    async def main(world: World) -> None:
        registry, _ = await start(world)

        async def refuses(request: Request) -> None:
            request.respond(encode_error(Conflict(f"{NODE} is another directory's")))

        registry._register = refuses  # type: ignore[method-assign]
        node = world.node(NODE)
        await node.stop()
        bus = world.ports("second").bus
        world.node("registry").end()
        await registry.start(bus)
        node.restart()
        await world.until(lambda: bool(node.failures), 60, "the end")
        assert isinstance(node.failures[0], Conflict)

    run(main, 3)


@pytest.mark.parametrize(
    "stored",
    [
        LONG_TP * 30 + number(2, 5),
        KEY + number(2, 5),
        number(1, 9) + number(2, 5),
        b"\x08",
        KEY + number(1, 0) + number(2, 5) + number(3, 0),  # as long in the right order
    ],
)
def test_a_prewrite_that_no_pump_stores_so_stops_the_start_with_its_place(stored: bytes) -> None:
    """Its rows would be cut out of it at the wrong byte."""
    with pytest.raises(Corrupt, match=r"000003.vlog at offset 40"):
        read_back(Pointer(3, 40), stored)
