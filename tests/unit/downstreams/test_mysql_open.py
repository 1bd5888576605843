"""A MySQL downstream that is opened, without a server."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from tidelog.downstream import Checkpoint, DownstreamOptions
from tidelog.downstreams import open_downstream
from tidelog.downstreams.checkpoint_table import dump
from tidelog.downstreams.mysql_session import MysqlSession
from tidelog.errors import Stopped

URL = "mysql://u@db/"


class Server:
    """Has these checkpoints, by their clusters' ids; somebody holds each lock until a KILL.
    `asked`: all statements."""

    where = "the downstream"
    closed = False

    def __init__(self, **checkpoints: str) -> None:
        self._saved = [
            (int(key[1:]), dump(feed, Checkpoint(5))) for key, feed in checkpoints.items()
        ]
        self.asked: list[str] = []

    async def rows(self, sql: str) -> list[tuple[Any, ...]]:
        self.asked.append(sql)
        answers: dict[str, list[tuple[Any, ...]]] = {
            "SELECT VERSION()": [("11.4.2-MariaDB",)],
            "SELECT clusterID": self._saved,
            "SELECT UUID()": [("one of a kind",)],
            "SELECT IS_USED_LOCK": [(7, 8)] if not self._was_killed() else [(None, 8)],
            "SELECT GET_LOCK": [(1,)],
        }
        return next((rows for begin, rows in answers.items() if sql.startswith(begin)), [])

    def _was_killed(self) -> bool:
        return any(sql.startswith("KILL") for sql in self.asked)

    async def run(self, sql: str) -> int:
        self.asked.append(sql)
        return 1

    async def run_all(self, statements: Sequence[bytes]) -> list[int]:
        self.asked += [sql.decode() for sql in statements]
        return [1] * len(statements)

    def discard(self) -> None:
        """Nothing is held."""


def opens(monkeypatch: pytest.MonkeyPatch, server: Server, feed: str) -> None:
    async def connect(_: object) -> Server:
        return server

    monkeypatch.setattr(MysqlSession, "connect", connect)
    asyncio.run(open_downstream(DownstreamOptions(url=URL, cluster_id=12)).open(feed))


def touches(server: Server) -> list[str]:
    """What it did to others: connections, locks, rows."""
    words = ("KILL", "SELECT GET_LOCK", "UPDATE", "DELETE", "REPLACE", "INSERT")
    return [sql for sql in server.asked if sql.startswith(words)]


def test_a_feed_of_our_name_of_another_cluster_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = Server(_11="main")
    with pytest.raises(Stopped, match="of cluster 11 is written here"):
        opens(monkeypatch, server, "main")
    assert touches(server) == []


def test_who_writes_our_own_feed_is_taken_over_beside_another_clusters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = Server(_11="other", _12="main")
    opens(monkeypatch, server, "main")
    assert touches(server)[0] == "KILL 7"
