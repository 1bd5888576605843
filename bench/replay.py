"""A relay log into MariaDB by the replay on Spark, beside the Applier on the same log.

Ten thousand hot rows fold to little; inserts don't fold at all. After each 250,000 changes a DDL
makes the replay begin a job anew. Beside it Spark's own JDBC writer puts the rows that remain into
an empty table, which is all that it can do: no DDL, no row that is there, nothing to go on from.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from bench import from_relay, pump_log, relay_log
from bench.apply import builds, check, emptied, url_of
from bench.drain import python_path
from bench.figure import Figure, Limit
from bench.jdbc_driver import fetched
from bench.limits_apply import create
from bench.limits_sql import connect
from bench.on_spark import Asked, Ran
from bench.shapes import HOT_ROWS, Load, Shape, hot, inserts, load
from bench.spark_runs import SparkRuns
from bench.tables import DATABASE
from tests.servers import MariaDb

SECTION = "replay"
CHANGES = 5_000_000
DDL_EVERY = 250_000
CORES = (1, 2)
READ_AIM = 400_000
SEGMENT_SHARE = 0.2
"""Of the changes, in the Pump's log."""


class Case(NamedTuple):
    """`aim`: of the Applier's rate, with all cores."""

    shape: Shape
    aim: float


CASES = (
    Case(Shape("insert", "inserts", 6, 0, CHANGES, inserts), 0.7),
    Case(Shape("hot", f"updates of {HOT_ROWS} rows", 6, HOT_ROWS, CHANGES, hot(HOT_ROWS)), 3.0),
)


async def measure(
    directory: Path, db: MariaDb, limits: Mapping[str, Limit], share: float, profile: str = ""
) -> list[Figure]:
    """`share` of the changes, a DDL after as many of them as ever."""
    jar = fetched()
    figures: list[Figure] = []
    for number, case in enumerate(CASES):
        made = load(case.shape, 100 + number, share)
        log = _Log(directory / case.shape.key, db, case, made)
        await log.write()
        by_jdbc = await log.jdbc(jar) if jar else None
        for build, site in builds():
            with python_path(site):
                figures += await log.figures(build, by_jdbc)
        log.remove()
    return figures + await _of_segments(directory / "pump", share)


async def _of_segments(directory: Path, share: float) -> list[Figure]:
    """The data source alone: rows of a Pump's log are decoded by the codecs."""
    made = load(CASES[0].shape, 200, SEGMENT_SHARE * share)
    log = pump_log.write(directory, made)
    runs = SparkRuns(directory / "runs")
    count = sum(map(len, made.measured))
    figures: list[Figure] = []
    for build, site in builds():
        rates = []
        for cores in CORES:
            asked = Asked(what="read", cores=cores, log=str(directory), history=log.history)
            with python_path(site):
                rates.append(count / (await runs.run(asked)).seconds)
        name = f"a Pump's log, {log.bytes >> 20} MiB, {made.table.columns} columns"
        figures.append(_read(name, rates, build))
    shutil.rmtree(directory)
    return figures


def _read(name: str, rates: Sequence[float], build: str) -> Figure:
    return Figure(
        SECTION,
        f"{name}: read and decoded, {CORES[-1]} cores, {build}",
        rates[-1],
        "rows/s",
        aim=READ_AIM if build != "plain" else None,
        note=f"{rates[-1] / rates[0]:.2f} × that of one core",
    )


class _Log:
    """One relay log, and what is made of it."""

    def __init__(self, directory: Path, db: MariaDb, case: Case, made: Load) -> None:
        self._directory = directory
        self._db = db
        self._case = case
        self._load = made
        self._count = sum(map(len, made.measured))
        self._spark = SparkRuns(directory / "runs")

    async def write(self) -> None:
        self._directory.mkdir(parents=True)
        self._written = await relay_log.write(self._directory, self._load, ddl_every=DDL_EVERY)

    def remove(self) -> None:
        shutil.rmtree(self._directory)

    async def figures(self, build: str, by_jdbc: float | None) -> list[Figure]:
        name = f"{self._case.shape.name}, {self._written.bytes >> 20} MiB"
        applier = Limit("the Applier on the same log", await self._applier(), "rows/s")
        read = [await self._read(cores) for cores in CORES]
        replayed = [await self._replayed(cores) for cores in CORES]
        rates = [self._count / ran.seconds for ran in replayed]
        note = f"{rates[-1] / rates[0]:.2f} × that of one core"
        note += f"; {replayed[-1].shuffled / self._count:.0f} bytes a change shuffled"
        if by_jdbc is not None:
            note += f"; {rates[-1] / by_jdbc:.2f} × Spark's JDBC writer ({by_jdbc / 1000:.0f}k)"
        return [
            _read(name, read, build),
            Figure(SECTION, f"{name}: replayed, one core, {build}", rates[0], "rows/s", applier),
            Figure(
                SECTION,
                f"{name}: replayed, {CORES[-1]} cores, {build}",
                rates[-1],
                "rows/s",
                applier,
                aim_of_limit=self._case.aim,
                note=note,
            ),
        ]

    async def _applier(self) -> float:
        """On a copy: it may remove what it has applied."""
        await self._emptied()
        place = self._directory / "applier"
        shutil.copytree(self._relay, place / relay_log.DIRECTORY)
        done = await from_relay.applied(
            self._db, url_of(self._db), place, self._load, self._written
        )
        await check(self._db, self._load)
        shutil.rmtree(place)
        return done.rate

    async def _read(self, cores: int) -> float:
        ran = await self._spark.run(Asked(what="read", cores=cores, log=self._relay))
        return self._count / ran.seconds

    async def _replayed(self, cores: int) -> Ran:
        await self._emptied()
        url, after = url_of(self._db), self._written.after
        asked = Asked(what="replay", cores=cores, log=self._relay, url=url, after=after)
        ran = await self._spark.run(asked)
        await check(self._db, self._load)
        return ran

    async def jdbc(self, jar: Path) -> float:
        """Changes per second, though it writes only the rows that remain of them."""
        await emptied(self._db)
        connection = await connect(self._db)
        await create(connection, self._load.table)
        connection.close()
        asked = Asked(
            what="jdbc",
            cores=CORES[-1],
            log=self._relay,
            table=f"{DATABASE}.{self._load.table.name}",
            host=f"{self._db.host}:{self._db.port}",
            user=self._db.user,
            password=self._db.password,
            jar=str(jar),
        )
        ran = await self._spark.run(asked)
        await check(self._db, self._remaining())
        return self._count / ran.seconds

    def _remaining(self) -> Load:
        """The load as it is where nothing was there before it."""
        last = {one.number: one.after for txn in self._load.measured for one in txn}
        versions = [version for version in last.values() if version is not None]
        return self._load._replace(rows=len(versions), versions=sum(versions))

    @property
    def _relay(self) -> str:
        return str(self._directory / relay_log.DIRECTORY)

    async def _emptied(self) -> None:
        await emptied(self._db)
        await from_relay.filled(self._db, self._load)
