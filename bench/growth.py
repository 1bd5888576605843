"""How the figures grow: with the number of Pumps, tables, columns, rows of a transaction.

The cases of `bench drain`, `apply`, `idle` and `memory` with other parameters, each point beside
its own limit. One point in the middle is part of all of the Drainer's curves. With the compiled
codecs, if there are any.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from bench import drain, drain_memory, from_relay, idle, limits_apply
from bench.apply import check, emptied, url_of
from bench.drain import Case, builds, python_path
from bench.figure import Figure, Growth, Limit
from bench.shapes import Shape, inserts, load
from tests.servers import MariaDb

SECTION = "growth"
PUMPS = (1, 2, 3, 5)
TABLES = (1, 10, 100, 1000)
COLUMNS = (2, 4, 6, 16)
ROWS = (1, 20, 100, 1000)
BASE = Case(20, 4, 300_000)
"""Each point has as many rows times columns."""
MOST = 1_200_000
"""Transactions of a point."""
MIB = (8, 32, 128)
"""Of a transaction."""
APPLIED = 200_000
"""Rows of each point of the Applier."""
IDLE_PUMPS = (1, 3, 5)
PACE = idle.Pace(0.05, 100)
THROUGHPUT, APPLIER = "the Drainer's throughput", "the Applier's throughput"
LATENCY, MEMORY = "the latency of an idle topology", "a Drainer's memory"


def drained() -> dict[Case, list[Growth]]:
    """Each case, and the curves that it is a point of."""
    found: dict[Case, list[Growth]] = {}
    for by, cases in (
        ("Pumps", {x: BASE._replace(pumps=x) for x in PUMPS}),
        ("tables", {x: BASE._replace(tables=x) for x in TABLES}),
        ("columns", {x: BASE._replace(columns=x) for x in COLUMNS}),
        ("rows of a transaction", {x: BASE._replace(rows=x) for x in ROWS}),
    ):
        for x, case in cases.items():
            rows = BASE.rows * BASE.transactions * BASE.columns // case.columns
            counted = case._replace(transactions=min(MOST, rows // case.rows))
            found.setdefault(counted, []).append(Growth(THROUGHPUT, by, x))
    return found


def applied() -> dict[Shape, list[Growth]]:
    """The same of the Applier, from its relay log."""
    found: dict[Shape, list[Growth]] = {}
    for by, points in (
        ("columns", [(20, columns) for columns in COLUMNS]),
        ("rows of a transaction", [(rows, 6) for rows in ROWS]),
    ):
        for rows, columns in points:
            name = f"{rows} row{'s' * (rows > 1)} of {columns} columns"
            key = f"{rows}x{columns}"
            shape = Shape(key, name, columns, 0, APPLIED, inserts, transaction=rows)
            x = columns if by == "columns" else rows
            found.setdefault(shape, []).append(Growth(APPLIER, by, x))
    return found


async def measure(
    directory: Path, db: MariaDb, limits: Mapping[str, Limit], share: float, profile: str = ""
) -> list[Figure]:
    directory.mkdir(parents=True)  # noqa: ASYNC240
    site = builds()[-1]
    cases = drained()
    found = await drain.measured(directory / "drain", list(cases), [site], share, profile)
    figures = [_point(f"Drainer, {figure.name}", figure, cases[case]) for case, figure in found]
    for shape, curves in applied().items():
        figures.append(await _applied(directory, db, shape, curves, share))
    for count in IDLE_PUMPS:
        place = directory / f"idle-{count}"
        for figure in await idle.measured(place, count, [PACE], limits, share, profile):
            by = f"Pumps, {figure.name.partition(',')[0]}"
            figures.append(_point(figure.name, figure, [Growth(LATENCY, by, count)]))
    sizes = [mib << 20 for mib in MIB]
    for mib, figure in zip(
        MIB, await drain_memory.large(directory / "memory", sizes, profile), strict=True
    ):
        figures.append(_point(figure.name, figure, [Growth(MEMORY, "MiB of a transaction", mib)]))
    return figures


def _point(name: str, figure: Figure, growth: list[Growth]) -> Figure:
    """Aims and the original's figures stand in the section that it is from."""
    return msgspec.structs.replace(
        figure, section=SECTION, name=name, growth=growth, aim=None, aim_of_limit=None, original=""
    )


async def _applied(
    directory: Path, db: MariaDb, shape: Shape, curves: list[Growth], share: float
) -> Figure:
    made = load(shape, 100, share)
    limit = await limits_apply.load_data(db, directory, made)
    build, site = builds()[-1]
    await emptied(db)
    place = directory / f"applier-{shape.key}"
    place.mkdir()
    with python_path(site):
        done = await from_relay.apply(db, url_of(db), place, made)
    await check(db, made)
    return Figure(
        SECTION,
        f"Applier, {shape.name}, {build}",
        done.rate,
        "rows/s",
        limit,
        usage=done.usage,
        note=f"up to {done.peak:.0f} MiB",
        growth=curves,
    )
