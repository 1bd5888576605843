"""Which parts of a step a replay passes by that is begun again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.fixtures.test_downstream_sets import clean
from tests.servers import MariaDb, mariadb_server
from tidelog.downstream import Checkpoint, DownstreamOptions
from tidelog.downstreams import open_downstream
from tidelog_backfill.files.view import Span, View
from tidelog_backfill.replay.plan import Segment
from tidelog_backfill.replay.routing import routing
from tidelog_backfill.replay.target import DatabaseTarget

FEED = "feed"
BEGINS, ENDS = 10, 50
SEGMENT = Segment(0, ENDS, [], View([Span(BEGINS, ENDS)]), [], {})
ROUTE = routing([], 2)


@pytest.fixture
def server(mariadb: MariaDb) -> MariaDb:
    clean(mariadb)
    return mariadb


@pytest.fixture(scope="module")
def mariadb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    with mariadb_server(tmp_path_factory.mktemp("parts")) as found:
        yield found


def options(server: MariaDb) -> DownstreamOptions:
    return DownstreamOptions(url=f"mysql://root@{server.host}:{server.port}/", lanes=2)


async def replayed(server: MariaDb, *parts: int) -> frozenset[int]:
    """Up to its end by SIGKILL, with these parts written. Returns which it found done."""
    target = DatabaseTarget(options(server), FEED, 100)
    await target.open()
    await target.save(target.position.at(BEGINS, reach=ENDS))
    writing, done = await target.step(SEGMENT, ROUTE)
    for part in parts:
        await writing.written(part, iter([]))
    await target.close()
    return done


async def said(server: MariaDb, checkpoint: Checkpoint) -> None:
    downstream = open_downstream(options(server))
    await downstream.open(FEED)
    await downstream.save_checkpoint(checkpoint)
    await downstream.close()


def test_parts_are_not_passed_by_once_an_applier_has_written(server: MariaDb) -> None:
    """Its rows may be older than theirs, and it may have been killed before its position moved:
    before its first row it says that some may come."""
    of_applier = Checkpoint(BEGINS, feed=FEED, reach=ENDS, unsure=ENDS)

    async def scenario() -> None:
        assert await replayed(server, 1) == frozenset()
        assert await replayed(server, 0) == frozenset({1})
        await said(server, of_applier)
        assert await replayed(server) == frozenset()

    asyncio.run(scenario())


def test_a_replay_that_is_refused_leaves_a_first_copy_its_chunks(server: MariaDb) -> None:
    async def scenario() -> None:
        assert await replayed(server, 1) == frozenset()
        await said(server, Checkpoint(0, feed=FEED, reach=ENDS))
        refused = DatabaseTarget(options(server), FEED, 100)
        await refused.open()
        await refused.close()
        assert await replayed(server) == frozenset({1})

    asyncio.run(scenario())
