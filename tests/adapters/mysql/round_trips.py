"""What a far downstream costs: rows a second through lanes at several round-trip times, as ratios
of the nearest one. `python -m tests.adapters.mysql.round_trips`
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from pathlib import Path

from tests.adapters.mysql.lanes_rig import LanesRig
from tests.faults.proxy import proxied
from tests.faults.toxics import Kind, Toxic
from tests.last_line import last_line
from tests.servers import MariaDb, mariadb_server
from tests.unit.downstreams.shapes import column, table
from tidelog.downstream import Image, TableShare, Work

ROUND_TRIPS_MS = (0.1, 1.0, 5.0, 20.0)
FAR_MS = 5.0
"""At this distance it writes more than a third of what it does at the least (T19)."""
LANES = 4
ROWS = 1250
"""A lane's share of a window of 5000 rows."""
WINDOWS = 20
T = table(
    "t",
    column("id", "bigint(20)"),
    column("k", "int(11)"),
    column("c", "varchar(120)"),
    column("pad", "varchar(60)"),
    column("d", "decimal(10,2)"),
    column("at", "datetime"),
    key=("id",),
)
CREATE = (
    "CREATE TABLE d.t (id BIGINT PRIMARY KEY, k INT, c VARCHAR(120), pad VARCHAR(60),"
    " d DECIMAL(10,2), at DATETIME)"
)


class Far(MariaDb):
    """The same server by another port."""

    def __init__(self, port: int) -> None:
        self.port = port


def rows(start: int) -> list[Image]:
    return [
        Image(
            {
                "id": number,
                "k": number * 7,
                "c": f"{number:060d}",
                "pad": "x" * 30,
                "d": "12.50",
                "at": "2024-02-29 12:00:00",
            }
        )
        for number in range(start, start + ROWS)
    ]


async def rate(server: MariaDb, round_trip_ms: float) -> float:
    """Rows a second, each lane writing its next share as soon as it has written one."""
    async with proxied(server.port) as proxy:
        proxy.poison(Toxic(Kind.LATENCY, round_trip_ms / 2000))
        rig = LanesRig(Far(proxy.port), lanes=LANES)
        await rig.open()
        lanes = [await rig.lane(number) for number in range(LANES)]
        works = [
            [
                Work([TableShare("d", T, inserts=rows((w * LANES + n) * ROWS))])
                for w in range(WINDOWS)
            ]
            for n in range(LANES)
        ]
        began = time.perf_counter()

        async def write(number: int) -> None:
            for work in works[number]:
                await lanes[number].apply(work)

        await asyncio.gather(*[write(number) for number in range(LANES)])
        took = time.perf_counter() - began
        await rig.downstream.close()
    return LANES * WINDOWS * ROWS / took


def main() -> int:
    whole, wrong = LANES * WINDOWS * ROWS, list[str]()
    with (
        tempfile.TemporaryDirectory() as directory,
        mariadb_server(Path(directory), "--innodb-flush-log-at-trx-commit=2") as server,
    ):
        best: dict[float, float] = {}
        for ms in (*ROUND_TRIPS_MS, *ROUND_TRIPS_MS):
            near = LanesRig(server)
            near.sql("CREATE DATABASE IF NOT EXISTS d")
            near.sql("DROP TABLE IF EXISTS d.t")
            near.sql(CREATE)
            best[ms] = max(best.get(ms, 0.0), asyncio.run(rate(server, ms)))
            ((there,),) = near.sql("SELECT COUNT(*) FROM d.t")
            if there != whole:
                wrong.append(f"{there} of {whole} rows are there, written from {ms} ms away")
        for ms, found in best.items():
            ratio = found / best[ROUND_TRIPS_MS[0]]
            print(f"{ms:5.1f} ms round trip: {found:9,.0f} rows/s, {ratio:.2f} of the nearest")
    if best[FAR_MS] <= best[ROUND_TRIPS_MS[0]] / 3:
        wrong.append(f"from {FAR_MS} ms away it writes less than a third of what it does near")
    print(*wrong, sep="\n", end="\n" if wrong else "")
    rows_written = 2 * len(ROUND_TRIPS_MS) * whole
    print(last_line("round trips of MySQL", rows_written, "rows", wrong=len(wrong)))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
