"""A table that changes while it is copied, and the stream after it:
`python -m tests.spark.backfill_rig --rows 2000000`.

Real processes: nats-server, registry, a Pump, Drainer, two MariaDBs. An application changes the
source's rows without a pause; what it commits gets to the Pump by the binary log, as a TiDB's
binlogs would. Meanwhile Spark copies the table; its process is killed in the middle, and another
goes on. Then the Applier goes on from the copy's checkpoint, and in the end both sides are equal,
row by row.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec
import pymysql
from pymysql.constants import ER
from pyspark.sql import SparkSession

import tidelog
from tests.acceptance.upstream.binlog import OPTIONS
from tests.acceptance.upstream.bridge import Bridge
from tests.acceptance.upstream.contents import ask, cursor, differences
from tests.integration.pump_client.cluster import Cluster, Service, cluster
from tests.last_line import last_line
from tests.processes import until
from tests.servers import MariaDb, mariadb_server
from tests.spark.lives import life, pause
from tests.spark.local import SETTINGS
from tidelog.bulk.jobs import BackfillJob, encode_job
from tidelog.bulk.told import Progress, Report
from tidelog.downstream import Checkpoint
from tidelog.downstreams.state_tables import CONTROL, lock_name
from tidelog.feeds import Feed, Feeds
from tidelog.real.bus import NatsBus
from tidelog_backfill.session import spark
from tidelog_backfill.snapshot.run import backfill

FEED = "main"
TABLE = (
    "create table shop.item (id bigint primary key, name varchar(40) not null, n int,"
    " price decimal(10, 2), at datetime, note blob, unique key (name))"
)
WORDS = "create table shop.word (a varchar(20), b int, c varchar(20) not null, primary key (a, b))"
STILL = "create table shop.a_still (id bigint primary key, n int)"
"""Copied first, and changed by nobody: it shows whether it is copied again."""
STILL_ROWS = 500
CHUNKS_DONE = "select count(*) from tidb_binlog.replay"
COPIED = 7
"""What the copy's rows of it say, in the second life, where the source's say 0."""
LATEST_S = 0.5
"""A kill comes at most so long after the chunks of which half are done."""
APPLIED_S = 300
ROW_BY_ROW = 100_000
"""Larger tables are compared by their checksums: their rows would fill the memory."""
AHEAD = 40
"""Transactions of the application before the bridge reads on; that ends when there is no more."""
LOOK_S = 0.1
"""Between two looks into the binary log: each is a connection of its own."""
CHANGES = 20
"""Transactions that the Pump gets at the least between two waves of chunks: of rows that are
copied already, and of some that are not yet."""


class Application:
    """Changes rows of the source until it is stopped, in a thread of its own. `turn`: is set when
    the bridge has read on."""

    def __init__(self, source: MariaDb, rows: int, seed: int, turn: threading.Event) -> None:
        self.transactions = 0
        self._turn = turn
        self._source = source
        self._rows = rows
        self._random = random.Random(seed)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="application")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(60)

    def _run(self) -> None:
        with cursor(self._source) as at:
            while not self._stop.is_set():
                at.execute("begin")
                try:
                    for _ in range(self._random.randrange(1, 6)):
                        at.execute(*self._change())
                except pymysql.err.IntegrityError as error:
                    if error.args[0] != ER.DUP_ENTRY:
                        raise
                    at.execute("rollback")
                    continue
                at.execute("commit")
                self.transactions += 1
                if self.transactions % AHEAD == 0:
                    self._turn.clear()
                    self._turn.wait(60)

    def _change(self) -> tuple[str, tuple[object, ...]]:
        """Of rows anywhere in the table: some are copied already, some are not yet."""
        key = self._random.randrange(1, self._rows + self._rows // 10)
        n = self._random.randrange(1000)
        word = f"w{key % 997}", key
        return self._random.choice(
            (
                ("update shop.item set n = %s, price = n / 7 where id = %s", (n, key)),
                ("delete from shop.item where id = %s", (key,)),
                ("insert into shop.item (id, name, n) values (%s, %s, 1)", (key, f"new {key}")),
                ("update shop.item set id = id + %s where id = %s", (10 * self._rows, key)),
                ("update shop.item set name = %s where id = %s", (f"item {key + 1}", key)),
                ("update shop.word set c = %s where a = %s and b = %s", (str(n), *word)),
                ("replace into shop.word values (%s, %s, 'new')", word),
            )
        )


class Rig:
    """`copy` runs the job; `follow` the Applier, until both sides are equal."""

    def __init__(
        self, made: Cluster, source: MariaDb, target: MariaDb, directory: Path, rows: int
    ) -> None:
        self.source = source
        self.target = target
        self.rows = rows
        self.progress: list[Progress] = []
        self.chunks_before = 0
        """Which the killed life had done."""
        self._made = made
        self._directory = directory
        common = ["--nats-url", made.nats.url, "--feed", FEED]
        self._drainer = Service(
            "tidelog_drainer", directory / "drainer", [*common, "--ddl-history", "embedded"]
        )
        self._applier = Service(
            "tidelog_applier", directory / "applier", [*common, "--downstream", url(target)]
        )

    def job(self, **more: object) -> BackfillJob:
        settings: dict[str, object] = {
            "source": url(self.source),
            "downstream": url(self.target),
            "feed": FEED,
            "nats_url": self._made.nats.url,
            "chunk_rows": max(1000, self.rows // 20),
            "parts": 4,
        }
        return BackfillJob(**{k: v for k, v in (settings | more).items() if v is not None})  # type: ignore[arg-type]

    def start(self) -> None:
        asyncio.run(_create_feed(self._made.nats.url))
        self._drainer.start()
        self._drainer.wait()

    def load(self) -> None:
        """Rows that are there before anybody hears of them."""
        with cursor(self.source) as at:
            at.execute("set sql_log_bin = 0")
            numbers = f"shop.seq_1_to_{self.rows}"
            at.execute(
                "insert into shop.item select seq, concat('item ', seq), seq % 100, seq / 3,"
                " '2026-01-01' + interval seq second, unhex(sha1(seq))"
                f" from {numbers}"
            )
            at.execute(
                "insert into shop.word select concat('w', seq % 997), seq, 'old'"
                f" from {numbers} where seq % 4 = 0"
            )
            at.execute(f"insert into shop.a_still select seq, 0 from shop.seq_1_to_{STILL_ROWS}")

    def follow(self, last: int) -> None:
        self._applier.start()
        self._applier.wait()
        until(lambda: self._applied() >= last, self._applier.log, APPLIED_S)
        if self.rows > ROW_BY_ROW:
            assert _checksums(self.source) == _checksums(self.target)
            return
        unequal = differences(self.source, self.target, "shop")
        assert not unequal, "\n".join(unequal)

    def leave(self) -> None:
        """The Applier ends, and its connections are gone."""
        self._applier.kill()
        lock = f"select is_used_lock('{lock_name(FEED, CONTROL)}')"
        until(lambda: ask(self.target, lock) == [(None,)], self._applier.log)

    def _applied(self) -> int:
        ((text,),) = ask(self.target, "select checkPoint from tidb_binlog.checkpoint")
        return msgspec.json.decode(text, type=Checkpoint).commit_ts

    def stop(self) -> None:
        self._applier.kill()
        self._drainer.kill()


async def _create_feed(nats_url: str) -> None:
    bus = await NatsBus.connect(nats_url)
    try:
        await Feeds(bus, "default").create(Feed(FEED))
    finally:
        await bus.close()


def _checksums(server: MariaDb) -> list[tuple[object, ...]]:
    """Of all values, whatever the order of the rows."""
    counts = ask(server, "select count(*), (select count(*) from shop.word) from shop.item")
    return [*ask(server, "checksum table shop.item, shop.word, shop.a_still extended"), *counts]


def url(server: MariaDb) -> str:
    return f"mysql://root@{server.host}:{server.port}/"


@contextmanager
def rig(directory: Path, target: MariaDb, rows: int) -> Iterator[Rig]:
    with ExitStack() as stack:
        source = stack.enter_context(mariadb_server(directory / "source", *OPTIONS))
        made = stack.enter_context(cluster(directory / "cluster", pumps=1))
        found = Rig(made, source, target, directory, rows)
        stack.callback(found.stop)
        found.start()
        yield found


class Following:
    """The bridge in a thread and loop of its own, while Spark has the main thread."""

    def __init__(self, on: Rig, directory: Path) -> None:
        self._rig = on
        self._directory = directory
        self._stop = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="bridge")
        self.turn = threading.Event()
        self.last = 0
        self.commits = 0
        self.error: BaseException | None = None

    def start(self) -> None:
        self._thread.start()
        assert self.turn.wait(60), self.error

    def stop(self) -> None:
        """When all is handed over."""
        self._stop.set()
        self._thread.join(300)
        if self.error is not None:
            raise self.error

    def wait(self, commits: int) -> None:
        """For so many more."""
        wanted = self.commits + commits
        until(
            lambda: self.commits >= wanted or self.error is not None,
            lambda: f"{wanted} commits, {self.commits} so far",
        )

    async def _run(self) -> None:
        try:
            async with tidelog.connect(self._rig._made.nats.url, state_dir=self._directory) as one:
                bridge = Bridge(self._rig.source, one)
                while True:
                    ends = self._stop.is_set()
                    count = await bridge.catch_up()
                    self.last, self.commits = bridge.last, bridge.commits
                    self.turn.set()
                    if ends and not count:
                        return
                    await asyncio.sleep(LOOK_S)
        except BaseException as error:  # noqa: BLE001 (told by `stop`)
            self.error = error
            self.turn.set()


def play(on: Rig, session: SparkSession, directory: Path, seed: int) -> Report:
    """The copy while rows change, killed in the middle and begun again; then the stream. Returns
    the second job's report."""
    with cursor(on.source) as at:
        for statement in ("create database shop", TABLE, WORDS, STILL):
            at.execute(statement)
    following = Following(on, directory / "state")
    following.start()
    on.load()
    application = Application(on.source, on.rows, seed, following.turn)
    application.start()

    def told(progress: Progress) -> None:
        on.progress.append(progress)
        following.wait(CHANGES)

    try:
        _killed_at_half(on, directory, random.Random(seed))
        _say(on.target, COPIED)
        report = backfill(session, on.job(), told)
        ((same,),) = ask(on.target, f"select count(*) from shop.a_still where n = {COPIED}")
        assert same == STILL_ROWS, "what was copied is copied again"
        _say(on.target, 0)
    finally:
        application.stop()
        following.stop()
    assert application.transactions
    on.follow(following.last)
    return report


def _killed_at_half(on: Rig, directory: Path, rng: random.Random) -> None:
    """A process does half of the chunks, at a pace at which it can't do all of them."""
    path = directory / "job.json"
    path.write_bytes(encode_job(on.job(rows_per_s=on.rows // 2)))
    with life(path, directory / "spark.log") as now:
        for progress in now.lines():
            if progress.total and progress.done * 2 >= progress.total:
                pause(rng.random() * LATEST_S)
                assert now.kill(), "it was too fast: more rows"
                break
        else:
            now.ended()
    ((on.chunks_before,),) = ask(on.target, CHUNKS_DONE)
    assert on.chunks_before


def _say(target: MariaDb, n: int) -> None:
    with cursor(target) as at:
        at.execute(f"update shop.a_still set n = {n}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    session = spark(SETTINGS)
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidelog-backfill-")))
        target = stack.enter_context(mariadb_server(place / "target"))
        on = stack.enter_context(rig(place, target, given.rows))
        began = time.monotonic()
        report = play(on, session, place, given.seed)
        rate = report.rows / report.seconds
        print(f"killed after {on.chunks_before} chunks of {on.progress[-1].total}")
        print(f"the others: {report.rows} rows in {report.seconds:.1f} s, {rate:,.0f}/s")
        print(f"{time.monotonic() - began:.1f} s in all; {report.guarantee}")
        print(last_line("backfill", report.rows, f"rows, seed {given.seed}"))


if __name__ == "__main__":
    main()
