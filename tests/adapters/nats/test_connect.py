"""`tidelog.connect` and `tidelog.subscribe` at a real server: what an application calls."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import tidelog
from tests.servers import NatsServer, free_port, nats_server
from tests.unit.pump_client.shop import CREATE_ITEM, CREATE_SHOP
from tests.unit.subscriber.feed import FEED, FeedWriter, Txn
from tests.unit.workload.bed import Bed
from tidelog import messages, subjects
from tidelog.changes import RowMessage
from tidelog.errors import BadInput, ForeignDirectory, StreamMissing, Unavailable
from tidelog.ports import Request
from tidelog.real.bus import NatsBus
from tidelog.workload import WorkloadConfig
from tidelog_proto.binlog_pb2 import Commit, Prewrite

TABLE = ("app", "a")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    with nats_server(tmp_path_factory.mktemp("nats")) as running:
        yield running


def numbers(rows: RowMessage) -> list[object]:
    return [event.after["n"] for event in rows.events if event.after]


def test_a_writer_writes_to_the_pumps_and_has_its_directory_for_itself(
    tmp_path: Path, server: NatsServer
) -> None:
    async def main() -> None:
        bus = await NatsBus.connect(server.url, timeout_s=10)
        bed = Bed(WorkloadConfig(cluster="c"))
        bed.jobs += [msgspec.json.encode(job) for job in (CREATE_SHOP, CREATE_ITEM)]
        await bed.serve(bus)
        given: dict[str, Any] = {"cluster": "c", "state_dir": tmp_path / "state"}
        async with asyncio.timeout(30), tidelog.connect(server.url, **given) as client:
            async with client.transaction() as txn:
                txn.insert("shop.item", {"id": 1, "name": "pencil"})
            assert await client.flush(10)
            taken = [(b.tp, b.start_ts, b.commit_ts) for b in bed.binlogs]
            assert taken == [
                (Prewrite, txn.start_ts, 0),
                (Commit, txn.start_ts, txn.commit_ts),
            ]
            with pytest.raises(ForeignDirectory):
                async with tidelog.connect(server.url, **given):
                    pass
        await bus.close()

    asyncio.run(main())


def test_a_server_that_is_not_there_is_told_after_the_time_given() -> None:
    async def main() -> None:
        url = f"nats://127.0.0.1:{free_port()}"
        with pytest.raises(Unavailable):
            async with tidelog.connect(url, timeout_s=0.1):
                pass
        with pytest.raises(Unavailable):
            async with tidelog.subscribe(nats_url=url, timeout_s=0.1):
                pass

    asyncio.run(main())


def test_a_reader_gets_transactions_or_their_rows_and_tells_the_registry_its_name(
    server: NatsServer,
) -> None:
    async def main() -> None:
        bus = await NatsBus.connect(server.url, timeout_s=10)
        asked: list[messages.SafePointRequest] = []

        async def safe_point(request: Request) -> None:
            asked.append(messages.decode(request.data, messages.SafePointRequest))
            request.respond(messages.encode(messages.SafePoint(0)))

        await bus.serve(subjects.registry("c", "safepoint"), safe_point)
        with pytest.raises(StreamMissing):
            async with tidelog.subscribe(FEED, nats_url=server.url, timeout_s=0.1):
                pass
        feed = FeedWriter(bus)
        await feed.create()
        await feed.batch([Txn(5, {TABLE: [1], ("app", "b"): [2]})])
        await feed.batch([Txn(9, {TABLE: [3]})])
        async with (
            asyncio.timeout(30),
            tidelog.subscribe(
                FEED, nats_url=server.url, tables=["app.a"], start=0, cluster="c", consumer="me"
            ) as changes,
        ):
            read = [
                (txn.commit_ts, [n for rows in txn.rows for n in numbers(rows)])
                async for txn in changes.until(9)
            ]
        assert read == [(5, [1]), (9, [3])]
        consumer = asked[0].consumer
        assert consumer is not None
        assert (consumer.name, consumer.feed) == ("me", FEED)
        async with (
            asyncio.timeout(30),
            tidelog.subscribe(
                FEED, nats_url=server.url, tables=["app.a"], start=5, transactional=False
            ) as rows,
        ):
            async for one in rows:
                assert isinstance(one, RowMessage)
                assert numbers(one) == [3]
                break
        await bus.close()

    asyncio.run(main())


def test_a_buffer_of_nothing_is_refused_before_anything_is_asked() -> None:
    with pytest.raises(BadInput, match="buffer_bytes 0"):
        tidelog.subscribe(FEED, buffer_bytes=0)
