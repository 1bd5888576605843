"""Schema changes whose notes meet a full disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest

from tests.unit.pump_client.dying import die
from tests.unit.pump_client.shore import Shore
from tidelog.errors import DiskFull
from tidelog.pump_client import DdlResult, Writer
from tidelog.pump_client.schema_changer import PENDING_PATH
from tidelog.sim import World, run

CREATE = "create table shop.t (id bigint primary key)"


def test_a_full_disk_leaves_no_transaction_open() -> None:
    async def main(world: World) -> None:
        async def app(client: Writer) -> None:
            disk: Any = client._changer._disk
            write, refusals = disk.write_file, [DiskFull("no space left")] * 5

            async def full(path: str, data: bytes) -> None:
                begun = path == PENDING_PATH and data and msgspec.json.decode(data)["start_ts"]
                if begun and refusals:
                    raise refusals.pop()
                await write(path, data)

            disk.write_file = full
            await client.ddl("create database shop")
            assert not refusals
            assert client._upstream.decisions.status()["open"] == 0

        shore = Shore(world)
        shore.start("app", app)
        await shore.read_until(lambda: bool(shore.queries()))

    run(main)


def test_a_change_that_could_not_be_noted_never_happens() -> None:
    """It was refused for certain, and nobody asked for it again."""

    async def main(world: World) -> None:
        async def app(client: Writer) -> None:
            with full_disk(client, when=lambda data: data), pytest.raises(DiskFull):
                await client.ddl("create database refused")
            await client.ddl("create database shop")

        shore = Shore(world)
        shore.start("app", app)
        await shore.read_until(lambda: "create database shop;" in shore.queries())
        assert shore.queries() == ["create database shop;"]

    run(main)


@pytest.mark.parametrize("dies", [False, True])
def test_a_change_that_happened_is_no_refusal_though_its_note_stays(dies: bool) -> None:
    results: list[DdlResult] = []

    async def main(world: World) -> None:
        node = world.node("app")

        async def first(client: Writer) -> None:
            with full_disk(client, when=lambda data: not data):
                results.append(await client.ddl("create database shop"))
                if dies:
                    await die(node)
            results.append(await client.ddl(CREATE))

        async def second(client: Writer) -> None:
            results.append(await client.ddl(CREATE))

        shore = Shore(world)
        shore.start("app", first)
        if dies:
            await world.until(lambda: node.kills == 1, 60)
            shore.start("app", second)
        await shore.read_until(lambda: CREATE + ";" in shore.queries())
        assert shore.queries() == ["create database shop;", CREATE + ";"]
        assert all(result.commit_ts for result in results)

    run(main)


@contextmanager
def full_disk(client: Writer, when: Callable[[bytes], object]) -> Iterator[None]:
    """For notes of schema changes."""
    disk: Any = client._changer._disk
    write = disk.write_file

    async def full(path: str, data: bytes) -> None:
        if path == PENDING_PATH and when(data):
            raise DiskFull("no space left")
        await write(path, data)

    disk.write_file = full
    try:
        yield
    finally:
        disk.write_file = write
