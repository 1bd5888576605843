"""What `bench replay` replays, and where the log comes from: `python -m bench.replay_cases FILE`
makes one in a process of its own, by the compiled codecs if they are in PYTHONPATH.

FILE is an `Asked` as JSON; prints what was written, as JSON.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import NamedTuple

import msgspec

from bench import relay_log
from bench.relay_log import Written
from bench.shapes import HOT_ROWS, Load, Shape, hot, inserts, load

DDL_EVERY = 250_000
FIRST_TABLE = 100


class Case(NamedTuple):
    """`aim`: of the Applier's rate, with all cores. Two GiB of relay log each, about."""

    shape: Shape
    aim: float


CASES = (
    Case(Shape("insert", "inserts, 16 columns", 16, 0, 5_000_000, inserts), 0.7),
    Case(Shape("hot", f"updates of {HOT_ROWS} rows", 6, HOT_ROWS, 6_500_000, hot(HOT_ROWS)), 3.0),
)
OF_PUMP = Shape("pump", "inserts", 6, 0, 4_000_000, inserts)


class Asked(msgspec.Struct, frozen=True):
    """The case by its number, `share` of its changes, and an Applier's data directory."""

    case: int
    share: float
    directory: str


def made(case: int, share: float) -> Load:
    """The same each time."""
    return load(CASES[case].shape, FIRST_TABLE + case, share)


async def written(directory: Path, case: int, share: float) -> Written:
    """Raises RuntimeError if the process does not end well."""
    path = directory / "asked-log.json"
    path.write_bytes(msgspec.json.encode(Asked(case, share, str(directory))))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.replay_cases", str(path), stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"the log's process ended with {process.returncode}")
    return msgspec.json.decode(out, type=Written)


def main() -> None:
    asked = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Asked)
    load = made(asked.case, asked.share)
    writing = relay_log.write(Path(asked.directory), load, ddl_every=DDL_EVERY)
    sys.stdout.write(msgspec.json.encode(asyncio.run(writing)).decode())


if __name__ == "__main__":
    main()
