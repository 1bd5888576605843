"""What every IndexStore and every Clock does (tidelog.ports)."""

from __future__ import annotations

import random

import pytest

from tests.conformance.places import Place
from tidelog.errors import Corrupt, InvariantBroken, IoFailed


def test_the_index_is_an_ordered_map(place: Place) -> None:
    async def scenario(place: Place) -> None:
        index = place.index()
        model: dict[bytes, bytes] = {}
        rng = random.Random(5)
        for _ in range(200):
            puts = [(bytes([rng.randrange(256)]) * 2, rng.randbytes(4)) for _ in range(3)]
            deletes = [bytes([rng.randrange(256)]) * 2]
            index.write(puts, deletes)
            model.update(puts)
            model.pop(deletes[0], None)
        assert index.scan(b"", b"\xff\xff\xff", 10_000) == sorted(model.items())
        assert (
            index.scan(b"\x20", b"\x60", 7)
            == [entry for entry in sorted(model.items()) if b"\x20" <= entry[0] < b"\x60"][:7]
        )
        assert index.get(b"nothing") is None
        first = min(model)
        assert index.get(first) == model[first]
        index.delete_range(b"\x20", b"\x60")
        assert index.scan(b"\x20", b"\x60", 7) == []
        assert index.scan(b"", b"\xff\xff\xff", 10_000) == [
            entry for entry in sorted(model.items()) if not b"\x20" <= entry[0] < b"\x60"
        ]
        index.close()

    place.run(scenario)


def test_deletes_come_after_puts_and_empty_ranges_are_empty(place: Place) -> None:
    async def scenario(place: Place) -> None:
        index = place.index()
        index.write([(b"a", b"1"), (b"b", b"2")], [b"a"])
        assert index.get(b"a") is None
        assert index.scan(b"b", b"b", 10) == []
        assert index.scan(b"c", b"a", 10) == []
        assert index.scan(b"a", b"z", 0) == []
        index.delete_range(b"z", b"a")
        assert index.get(b"b") == b"2"
        index.close()

    place.run(scenario)


def test_a_cleared_index_is_empty_and_takes_more(place: Place) -> None:
    async def scenario(place: Place) -> None:
        index = place.index()
        index.write([(b"\x00", b"1"), (b"k", b"2"), (b"\xff" * 20, b"3")])
        index.clear()
        assert index.scan(b"", b"\xff" * 40, 10) == []
        index.clear()
        index.write([(b"k", b"4")])
        index.close()
        again = place.index()
        assert again.scan(b"", b"\xff" * 40, 10) == [(b"k", b"4")]
        again.close()

    place.run(scenario)


def test_a_closed_index_is_there_when_opened_again(place: Place) -> None:
    async def scenario(place: Place) -> None:
        index = place.index()
        index.write([(b"k", b"v")])
        index.close()
        index.close()
        for call in (
            lambda: index.get(b"k"),
            lambda: index.scan(b"a", b"z", 1),
            lambda: index.write([(b"k", b"w")]),
            lambda: index.delete_range(b"a", b"z"),
            index.clear,
            index.behind,
        ):
            with pytest.raises(InvariantBroken):  # and nothing is held against what is stored
                call()
        again = place.index()
        assert again.get(b"k") == b"v"
        again.close()

    place.run(scenario)


def test_an_index_that_failed_is_closed_though_it_can_t_be_flushed(place: Place) -> None:
    async def scenario(place: Place) -> None:
        index = place.index()
        index.write([(b"k", b"v")])
        with place.failing_index():
            with pytest.raises(IoFailed):
                index.write([(b"%d" % n, bytes(1000)) for n in range(1000)])
            with pytest.raises(IoFailed):
                index.close()
        index.close()
        with pytest.raises(InvariantBroken):
            index.get(b"k")
        with pytest.raises(Corrupt):
            place.index()
        place.drop_index()
        again = place.index()
        assert again.get(b"k") is None
        again.close()

    place.run(scenario)


def test_time_goes_on(place: Place) -> None:
    async def scenario(place: Place) -> None:
        clock = place.clock()
        wall, monotonic = clock.wall_ms(), clock.monotonic()
        await clock.sleep(0.05)
        assert clock.monotonic() - monotonic >= 0.049
        assert clock.wall_ms() - wall >= 49
        assert wall > 1_500_000_000_000

    place.run(scenario)


def test_randomness_keeps_to_its_bounds(place: Place) -> None:
    async def scenario(place: Place) -> None:
        rng = place.ports().rng
        assert {rng.randbelow(3) for _ in range(200)} == {0, 1, 2}
        drawn = {rng.random() for _ in range(50)}
        assert len(drawn) == 50
        assert all(0 <= one < 1 for one in drawn)
        tokens = {rng.token() for _ in range(50)}
        assert len(tokens) == 50
        assert all(len(bytes.fromhex(one)) >= 8 for one in tokens)

    place.run(scenario)


def test_a_fresh_index_is_not_behind(place: Place) -> None:
    async def scenario(place: Place) -> None:
        index = place.index()
        assert not index.behind()
        index.write([(bytes([n]), b"v") for n in range(100)])
        assert not index.behind()
        index.close()

    place.run(scenario)
