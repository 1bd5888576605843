"""What every oracle does that is asked for timestamps (ports.Oracle, I9)."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from pathlib import Path

import pytest

from tests.conformance.oracles import (
    TIMEOUT_S,
    GrpcPd,
    House,
    RealRegistry,
    SimPd,
    SimRegistry,
)
from tidelog.batched_oracle import BatchedOracle
from tidelog.errors import BadInput, TidelogError, Unavailable

WITHIN_S = 20.0
"""A new registry waits for the leases of an older one; a PD is there at once."""
MORE_S = 3.0
"""Beyond what the caller gave: the last try, and looking for who leads."""


@pytest.fixture(params=["registry-sim", "registry", "pd-sim", "pd-grpc"])
def house(request: pytest.FixtureRequest, tmp_path: Path) -> House:
    match request.param:
        case "registry-sim":
            return SimRegistry()
        case "registry":
            return RealRegistry(request.getfixturevalue("server"), tmp_path)
        case "pd-sim":
            return SimPd()
    return GrpcPd()


async def _given(oracle: BatchedOracle) -> int:
    """The next one, however long the change of who gives it takes."""
    async with asyncio.timeout(WITHIN_S):
        while True:
            try:
                return await oracle.fresh()
            except Unavailable:
                await asyncio.sleep(0.05)


def test_they_rise_for_whoever_asks_next(house: House) -> None:
    async def scenario(house: House) -> None:
        one, other = house.oracle(), house.oracle()
        given = [await _given(one)]
        for _ in range(20):
            given += [await one.fresh(), await other.fresh()]
        assert all(before < after for before, after in pairwise(given))

    house.run(scenario)


def test_who_asks_at_once_shares_a_request_and_no_timestamp(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(house: House) -> None:
        oracle = house.oracle()
        before = await _given(oracle)
        asked: list[int] = []
        ask = oracle._ask

        async def counted(total: int) -> int:
            asked.append(total)
            return await ask(total)

        monkeypatch.setattr(oracle, "_ask", counted)
        counts = [1 + number % 3 for number in range(300)]
        lasts = await asyncio.gather(*(oracle.take(count) for count in counts))
        taken = [ts for c, last in zip(counts, lasts, strict=True) for ts in range(last - c, last)]
        assert len(set(taken)) == sum(counts) == sum(asked)
        assert min(taken) >= before
        assert len(asked) <= 3

    house.run(scenario)


def test_they_rise_when_another_one_gives_them(house: House) -> None:
    async def scenario(house: House) -> None:
        first, second = house.oracle(), house.oracle()
        highest = await _given(first)
        for _ in range(2):
            before = {highest, *await asyncio.gather(*(first.fresh() for _ in range(20)))}
            waiting = [asyncio.ensure_future(_given(oracle)) for oracle in (first, second) * 5]
            await house.fail_over()
            during = await asyncio.gather(*waiting)
            assert len({*before, *during}) == len(before) + len(during)
            assert max(before) < min(during)
            highest = await _given(first)
            assert highest > max(during)

    house.run(scenario)


def test_nobody_there_is_told_in_time_and_nothing_comes_twice(house: House) -> None:
    async def scenario(house: House) -> None:
        oracle = house.oracle()
        before = await _given(oracle)
        house.leave()
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(WITHIN_S):
            while True:
                began = loop.time()
                try:
                    before = await oracle.fresh()
                except Unavailable:
                    break
        assert loop.time() - began < TIMEOUT_S + MORE_S
        waiting = await asyncio.gather(*(oracle.fresh() for _ in range(20)), return_exceptions=True)
        assert {isinstance(error, Unavailable) for error in waiting} == {True}
        await house.come_back()
        assert await _given(oracle) > before

    house.run(scenario)


def test_one_of_another_cluster_gives_nothing(house: House) -> None:
    async def scenario(house: House) -> None:
        assert await _given(house.oracle()) > 0
        loop = asyncio.get_running_loop()
        began = loop.time()
        with pytest.raises((BadInput, Unavailable)) as caught:
            await house.foreign().fresh()
        assert loop.time() - began < TIMEOUT_S + MORE_S
        assert isinstance(caught.value, TidelogError)
        assert caught.value.definite

    house.run(scenario)
