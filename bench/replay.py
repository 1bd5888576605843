"""A relay log into MariaDB by the replay on Spark, beside the Applier on the same log.

Ten thousand hot rows fold to little; inserts don't fold at all. After each 250,000 changes a DDL
makes the replay begin a job anew. Beside it Spark's own JDBC writer puts the rows that remain into
an empty table, which is all that it can do: no DDL, no row that is there, nothing to go on from.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench import from_relay, pump_log, relay_log, replay_cases
from bench.apply import check, emptied, url_of
from bench.drain import builds, python_path
from bench.figure import Figure, Limit
from bench.jdbc_driver import fetched
from bench.limits_apply import create
from bench.limits_sql import connect
from bench.on_spark import Asked, Ran
from bench.relay_log import Written
from bench.replay_cases import CASES, OF_PUMP, Case
from bench.shapes import Load, load
from bench.spark_runs import SparkRuns
from bench.tables import DATABASE
from tests.servers import MariaDb

SECTION = "replay"
CORES = (1, 2)
READ_AIM = 400_000
PUMP_TABLE = 200


async def measure(
    directory: Path, db: MariaDb, limits: Mapping[str, Limit], share: float, profile: str = ""
) -> list[Figure]:
    """`share` of the changes, a DDL after as many of them as ever. The compiled codecs, if there
    are any."""
    jar = fetched()
    build, site = builds()[-1]
    figures: list[Figure] = []
    with python_path(site):
        for number, case in enumerate(CASES):
            place = directory / case.shape.key
            place.mkdir(parents=True)
            written = await replay_cases.written(place, number, share)
            log = _Log(place, db, case, replay_cases.made(number, share), written)
            figures += await log.figures(build, jar)
            await emptied(db)
            log.remove()
        figures += await _of_pump(directory / "pump", share, build)
    return figures


async def _of_pump(directory: Path, share: float, build: str) -> list[Figure]:
    """The data source alone: rows of a Pump's log are decoded by the codecs."""
    made = load(OF_PUMP, PUMP_TABLE, share)
    log = pump_log.write(directory, made)
    runs = SparkRuns(directory / "runs")
    count = sum(map(len, made.measured))
    rates = []
    for cores in CORES:
        asked = Asked(what="read", cores=cores, log=str(directory), history=log.history)
        rates.append(count / (await runs.run(asked)).seconds)
    name = f"a Pump's log, {log.bytes >> 20} MiB, {made.table.columns} columns"
    shutil.rmtree(directory)
    return [_read(name, rates, build)]


def _read(name: str, rates: Sequence[float], build: str) -> Figure:
    return Figure(
        SECTION,
        f"{name}: read and decoded, {CORES[-1]} cores, {build}",
        rates[-1],
        "rows/s",
        aim=READ_AIM if build != "plain" else None,
        note=f"{rates[-1] / rates[0]:.2f} × that of one core",
    )


def _linked(source: Path, target: Path) -> None:
    """A log as its own Applier has it: that one only appends to the newest file, and removes."""
    whole = sorted(source.glob("relay-*"))[:-1]

    def taken(path: str, to: str) -> None:
        (os.link if Path(path) in whole else shutil.copy2)(path, to)

    shutil.copytree(source, target, copy_function=taken)


class _Log:
    """One relay log, and what is made of it."""

    def __init__(
        self, directory: Path, db: MariaDb, case: Case, made: Load, written: Written
    ) -> None:
        self._directory = directory
        self._db = db
        self._case = case
        self._load = made
        self._written = written
        self._count = sum(map(len, made.measured))
        self._spark = SparkRuns(directory / "runs")

    def remove(self) -> None:
        shutil.rmtree(self._directory)

    async def figures(self, build: str, jar: Path | None) -> list[Figure]:
        """Beside the Applier, and Spark's JDBC writer if there is its driver."""
        changes = f"{self._count:,} {self._case.shape.name}"
        name = f"{changes}, {self._written.bytes >> 20} MiB"
        applier = Limit("the Applier on the same log", await self._applier(), "rows/s")
        read = _read(name, [await self._read(cores) for cores in CORES], build)
        one, all_cores = [await self._replayed(cores) for cores in CORES]
        rate = self._count / all_cores.seconds
        replayed = f"{name}: replayed, {CORES[-1]} cores, {build}"
        figures = [
            read,
            Figure(
                SECTION,
                f"{name}: replayed, one core, {build}",
                self._count / one.seconds,
                "rows/s",
                applier,
            ),
            Figure(
                SECTION,
                replayed,
                rate,
                "rows/s",
                applier,
                aim_of_limit=self._case.aim,
                note=f"{one.seconds / all_cores.seconds:.2f} × that of one core",
            ),
            Figure(SECTION, f"{name}: shuffled", all_cores.shuffled / self._count, "B/row"),
        ]
        if jar is not None:
            jdbc = Limit("Spark's JDBC writer, of what remains", await self._jdbc(jar), "rows/s")
            figures.append(Figure(SECTION, f"{replayed}, beside JDBC", rate, "rows/s", jdbc))
        return figures

    async def _applier(self) -> float:
        """On a log of its own: it may remove what it has applied."""
        await self._emptied()
        place = self._directory / "applier"
        _linked(Path(self._relay), place / relay_log.DIRECTORY)
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

    async def _jdbc(self, jar: Path) -> float:
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
