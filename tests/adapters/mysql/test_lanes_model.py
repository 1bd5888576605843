"""Several connections write a real MariaDB without any order between them: whatever REPLACE and
DELETE do to each other's rows, locks and deadlocks included, the end is the upstream's."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from queue import SimpleQueue
from random import Random
from typing import Any

import pymysql
import pytest

from tests.servers import MariaDb, mariadb_server
from tests.unit.plan.test_interleavings import change, windows
from tests.unit.plan.toy import NAMES, Row, Toy, Upstream
from tidelog.downstream import Image, TableShare
from tidelog.plan.events import TableEvents
from tidelog.plan.window import Plan, Planner

LANES = 4
IN_FLIGHT = 3
EVENTS = 400
DEADLOCK = 1213
Writes = list[tuple[str, list[Any]]]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    options = ("--innodb-flush-log-at-trx-commit=0", "--innodb-lock-wait-timeout=5")
    with mariadb_server(tmp_path_factory.mktemp("lanes"), *options) as found:
        yield found


def connect(server: MariaDb) -> pymysql.connections.Connection:
    return pymysql.connect(host=server.host, port=server.port, user=server.user)


def create(connection: pymysql.connections.Connection, toy: Toy, rows: list[Row]) -> None:
    kind = "VARCHAR(20) COLLATE utf8mb4_general_ci" if toy.text else "BIGINT"
    unique = "".join(f", UNIQUE ({name})" for name in NAMES[1 : toy.keys])
    columns = ",".join(f"{name} {kind}" for name in NAMES)
    with connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE IF NOT EXISTS d CHARACTER SET utf8mb4")
        cursor.execute("DROP TABLE IF EXISTS d.t")
        cursor.execute(f"CREATE TABLE d.t ({columns}, v BIGINT, PRIMARY KEY (id){unique})")
        for sql, values in puts([Image(row) for row in rows]):
            cursor.execute(sql, values)
    connection.commit()


def puts(images: list[Image]) -> Writes:
    if not images:
        return []
    values = [image.row[name] for image in images for name in (*NAMES, "v")]
    return [(f"REPLACE INTO d.t VALUES {','.join(['(%s,%s,%s,%s)'] * len(images))}", values)]


def writes(share: TableShare) -> Writes:
    gone = [image.row["id"] for image in share.deletes]
    out: Writes = []
    if gone:
        out.append((f"DELETE FROM d.t WHERE id IN ({','.join(['%s'] * len(gone))})", gone))
    return out + puts(share.inserts) + puts(share.updates)


class Crew:
    """A thread and a connection for each lane."""

    def __init__(self, server: MariaDb) -> None:
        self.queues: list[SimpleQueue[tuple[int, Writes] | None]] = []
        self.done: SimpleQueue[int | pymysql.MySQLError] = SimpleQueue()
        self.threads: list[threading.Thread] = []
        self.deadlocks = 0
        for _ in range(LANES):
            self.queues.append(SimpleQueue())
            arguments = (connect(server), self.queues[-1])
            self.threads.append(threading.Thread(target=self._work, args=arguments))
            self.threads[-1].start()

    def _work(
        self,
        connection: pymysql.connections.Connection,
        queue: SimpleQueue[tuple[int, Writes] | None],
    ) -> None:
        with connection, connection.cursor() as cursor:
            while (work := queue.get()) is not None:
                window, statements = work
                try:
                    while not self._transaction(connection, cursor, statements):
                        self.deadlocks += 1
                except pymysql.MySQLError as error:
                    self.done.put(error)
                    return
                self.done.put(window)

    def _transaction(
        self,
        connection: pymysql.connections.Connection,
        cursor: pymysql.cursors.Cursor,
        statements: Writes,
    ) -> bool:
        try:
            for sql, values in statements:
                cursor.execute(sql, values)
        except pymysql.err.OperationalError as error:
            if error.args[0] != DEADLOCK:
                raise
            connection.rollback()
            return False
        connection.commit()
        return True

    def close(self) -> None:
        for queue in self.queues:
            queue.put(None)
        for thread in self.threads:
            thread.join()


class Coordinator:
    def __init__(self, crew: Crew) -> None:
        self.crew = crew
        self.planner = Planner(LANES)
        self.left: dict[int, int] = {}

    def hand_over(self, window: int, tables: list[TableEvents]) -> None:
        while len(self.left) == IN_FLIGHT:
            self._wait()
        plan = self.planner.plan(window, tables)
        if plan is None:
            self.drain()
            plan = self.planner.plan(window, tables)
            assert plan is not None
        self._give(window, plan)

    def _give(self, window: int, plan: Plan) -> None:
        busy = [lane for lane, shares in enumerate(plan) if shares]
        self.left[window] = len(busy)
        if not busy:
            self._done(window)
        for lane in busy:
            statements = [one for share in plan[lane] for one in writes(share)]
            self.crew.queues[lane].put((window, statements))

    def drain(self) -> None:
        while self.left:
            self._wait()

    def _wait(self) -> None:
        found = self.crew.done.get(timeout=60)
        if isinstance(found, pymysql.MySQLError):
            raise found
        self.left[found] -= 1
        if not self.left[found]:
            self._done(found)

    def _done(self, window: int) -> None:
        del self.left[window]
        self.planner.applied(window)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize("keys", [1, 2, 3])
def test_lanes_without_order_come_to_the_upstreams_end(
    server: MariaDb, keys: int, text: bool, seed: int
) -> None:
    rng = Random(seed)
    toy = Toy(keys, text, rare=0.02 if seed % 4 == 0 else 0)
    upstream = Upstream(toy)
    found = (change(rng, toy, upstream, number) for number in range(EVENTS))
    events = [event for event in found if event is not None]
    with connect(server) as connection:
        create(connection, toy, [])
        crew = Crew(server)
        try:
            coordinator = Coordinator(crew)
            for window, (_, part) in enumerate(windows(rng, events)):
                coordinator.hand_over(window, [TableEvents("d", toy.structure, toy.rule, part)])
            coordinator.drain()
        finally:
            crew.close()
        with connection.cursor() as cursor:
            cursor.execute("SELECT id, a, b, v FROM d.t")
            rows = sorted(cursor.fetchall(), key=repr)
    wanted = [tuple(row[name] for name in (*NAMES, "v")) for row in upstream.rows.values()]
    assert rows == sorted(wanted, key=repr)
