"""The embedded DDL history: acked jobs survive power loss, a torn tail is cut, rot stops us."""

from __future__ import annotations

import asyncio
import contextlib
import json

import pytest
from crc32c import crc32c

from tests.unit.registry.nodes import CLUSTER
from tidelog.actor import Ref
from tidelog.ddl_history import EmbeddedHistory
from tidelog.errors import BadInput, Conflict, Corrupt, TidelogError
from tidelog.messages import DdlJobs, DdlList, Empty, encode
from tidelog.ports import Ports
from tidelog.sim import World, run
from tidelog.sim.disk import DiskFaults
from tidelog.supervisor import Supervisor
from tidelog_registry import ddl_store, service
from tidelog_registry.config import RegistryConfig
from tidelog_registry.ddl_store import HEADER, Append, DdlStore, Page

Mail = Append | Page


def job(job_id: int, query: str = "CREATE TABLE t (a INT)") -> bytes:
    return json.dumps({"id": job_id, "type": 3, "query": query}).encode()


class Bench:
    """The store alone, on a simulated node."""

    def __init__(self) -> None:
        self.ref: Ref[Mail] = Ref("unset")

    def build(self, _: object, ports: Ports) -> Supervisor:
        tree = Supervisor("bench")
        self.ref = tree.actor("ddl", lambda: DdlStore(ports))
        return tree

    async def append(self, body: bytes, after: int | None = None) -> None:
        answer: Empty = await self.ref.ask(lambda reply: Append(body, reply, after))
        assert answer == Empty()

    async def ids(self, after: int = 0, limit: int = 1000) -> list[int]:
        page = await self.page(after, limit)
        return [json.loads(bytes(raw))["id"] for raw in page.jobs]

    async def page(self, after: int, limit: int) -> DdlJobs:
        return await self.ref.ask(lambda reply: Page(DdlList(after, limit), reply))


@pytest.mark.parametrize("max_payload", [64 << 10, 256 << 10, 1 << 20])
def test_what_is_kept_can_be_told_over_the_bus(
    monkeypatch: pytest.MonkeyPatch, max_payload: int
) -> None:
    """An answer above max_payload would never come, and the feeds would wait for it for ever."""
    monkeypatch.setattr("tidelog.sim.bus.MAX_PAYLOAD", max_payload)

    async def main(world: World) -> None:
        bench = Bench()
        world.node("n").start(bench.build, None)
        await world.until(lambda: bench.ref.alive, 5)
        sizes = [2000] * 40 + [max_payload - under for under in range(18, 80, 6)]
        kept = 0
        for n, size in enumerate(sizes, 1):
            with contextlib.suppress(BadInput):
                await bench.append(job(n, "x" * (size - len(job(n, "")))))
                kept = n
        assert kept > 40
        told, more = 0, True
        while more:
            page = await bench.page(told, 512)
            assert len(encode(page)) <= max_payload
            told, more = json.loads(bytes(page.jobs[-1]))["id"], page.more
        assert told == kept

    run(main, 1)


@pytest.mark.parametrize("seed", range(10))
def test_acked_jobs_survive_power_loss_at_any_moment(seed: int) -> None:
    async def main(world: World) -> None:
        rng = world.random("test")
        bench = Bench()
        node = world.node("n")
        node.start(bench.build, None)
        await world.until(lambda: bench.ref.alive, 5)
        acked: list[int] = []
        next_id = 1

        async def write(job_id: int) -> None:
            try:
                await bench.append(job(job_id, "x" * rng.randrange(2000)))
            except TidelogError:
                return
            acked.append(job_id)

        for _ in range(12):
            calls = [asyncio.ensure_future(write(i)) for i in range(next_id, next_id + 9)]
            next_id += 9
            await world.sleep(rng.random() * 0.02)
            node.kill()
            await asyncio.gather(*calls)
            node.restart()
            await world.until(lambda: bench.ref.alive, 5)
            assert set(acked) <= set(await bench.ids())
        assert acked
        assert not node.stopped

    run(main, seed)


def test_the_same_job_again_is_fine_and_another_with_its_id_is_not() -> None:
    async def main(world: World) -> None:
        bench = Bench()
        world.node("n").start(bench.build, None)
        await world.until(lambda: bench.ref.alive, 5)
        for body in (job(5), job(3), job(5)):
            await bench.append(body)
        with pytest.raises(Conflict):
            await bench.append(job(5, "DROP TABLE t"))
        with pytest.raises(BadInput):
            await bench.append(b'{"no": "id"}')
        assert await bench.ids() == [3, 5]
        assert await bench.ids(after=3) == [5]
        page = await bench.page(0, 1)
        assert (len(page.jobs), page.more) == (1, True)

    run(main)


@pytest.mark.parametrize(
    "body",
    [
        b'{"id":7}',
        b'{"id":7,"type":"create"}',
        b'{"id":7,"type":3,"query":"\xff"}',
        b'{"id":7,"type":3,"binlog":[]}',
        *(b'{"id":%d,"type":3}' % job_id for job_id in (0, -3, 1 << 63, 1 << 70)),
    ],
)
def test_a_job_that_no_reader_could_read_is_not_kept(body: bytes) -> None:
    """It would stand before all that come after it, for ever."""

    async def main(world: World) -> None:
        bench = Bench()
        world.node("n").start(bench.build, None)
        await world.until(lambda: bench.ref.alive, 5)
        with pytest.raises(BadInput, match="DDL job"):
            await bench.append(body)
        await bench.append(job((1 << 63) - 1))
        assert await bench.ids(after=-5) == [(1 << 63) - 1]

    run(main)


def test_a_job_that_was_planned_before_the_newest_came_is_refused() -> None:
    async def main(world: World) -> None:
        bench = Bench()
        world.node("n").start(bench.build, None)
        await world.until(lambda: bench.ref.alive, 5)
        told = await asyncio.gather(
            *(bench.append(job(5, query), 0) for query in "abc"), return_exceptions=True
        )
        assert sorted(type(one).__name__ for one in told) == ["Conflict", "Conflict", "NoneType"]
        await bench.append(job(7), 5)
        for body, after in ((job(9), 5), (job(9), 0), (job(9), 8)):
            with pytest.raises(Conflict):
                await bench.append(body, after)
        await bench.append(job(9), 7)
        await bench.append(job(7), 5)  # the same again, whatever came since
        assert await bench.ids() == [5, 7, 9]

    run(main)


def test_a_flipped_byte_before_the_synced_end_stops_the_registry() -> None:
    async def main(world: World) -> None:
        bench = Bench()
        node = world.node("n", disk=DiskFaults())
        node.start(bench.build, None)
        await world.until(lambda: bench.ref.alive, 5)
        await bench.append(job(1))
        await bench.append(job(2))
        await node.stop()
        disk = node.ports().disk
        data = bytearray(disk.read_file(ddl_store.PATH))
        data[12] ^= 1
        await disk.write_file(ddl_store.PATH, bytes(data))
        node.restart()
        await world.until(lambda: bool(node.failures), 5)
        assert type(node.failures[0]).__name__ == "Corrupt"

    run(main)


def test_a_whole_record_that_is_no_job_stops_the_registry() -> None:
    """Its checksum is right: a torn tail that may be cut looks otherwise."""

    async def main(world: World) -> None:
        bench = Bench()
        node = world.node("n")
        node.start(bench.build, None)
        await world.until(lambda: bench.ref.alive, 5)
        await bench.append(job(1))
        await node.stop()
        disk = node.ports().disk
        right = disk.read_file(ddl_store.PATH)
        for body in (b'{"no": "id"}', b'{"id":"\xff"}', b"[" * 5000):
            kept = right + HEADER.pack(len(body), crc32c(body)) + body
            await disk.write_file(ddl_store.PATH, kept)
            node.failures.clear()
            node.restart()
            await world.until(lambda: bool(node.failures), 5)
            assert isinstance(node.failures[0], Corrupt)
            told = f"{ddl_store.PATH} has no DDL job at offset {len(right)}: "
            assert node.failures[0].message.startswith(told)
            node.kill()
            assert disk.read_file(ddl_store.PATH) == kept, "nothing was cut"
        await disk.write_file(ddl_store.PATH, right)
        node.restart()
        await world.until(lambda: bench.ref.alive, 5)
        assert await bench.ids() == [1]

    run(main)


def test_the_history_is_read_in_pages_over_the_bus() -> None:
    async def main(world: World) -> None:
        bus = world.ports().bus
        world.node("r").start(service.build, RegistryConfig(cluster=CLUSTER))
        await world.sleep(1)
        history = EmbeddedHistory(bus, CLUSTER)
        for job_id in range(1, 451):
            await history.append(job(job_id, "y" * 3000))
        pages = [page async for page in history.jobs(50)]
        assert [j.id for page in pages for j in page] == list(range(51, 451))
        assert len(pages) > 2
        with pytest.raises(Conflict):
            await history.append(job(7, "another"))

    run(main)
