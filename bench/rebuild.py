"""The start of a Pump whose index is gone: the log is read from its first byte to its last.

Beside it: how fast the same files can be read and their checksums compared, and nothing else. And
the start with the index in place, which reads no full file.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from pathlib import Path

from bench.figure import Figure, Limit
from bench.pull import fill
from bench.stage import Stage
from tidelog import record

SECTION = "rebuild"
SIZES = ((4 << 10, 250_000), (256, 400_000))
"""Bytes of a Prewrite, transactions: a log of 1 GiB, and one of many small records."""
AIM = 200.0
READ_BYTES = 1 << 20


async def measure(
    directory: Path, limits: Mapping[str, Limit], share: float, profile: str = ""
) -> list[Figure]:
    figures: list[Figure] = []
    for size, count in SIZES:
        place = directory / str(size)
        async with Stage(place, oracle="follow", profile=profile) as stage:
            await stage.start("registry")
            empty = Limit("the same start with no log", await _start(stage), "s")
            await fill(stage, size, int(count * share))
            await stage.stop("pump-1")
            log = sorted((place / "pump-1" / "value").glob("*.vlog"))
            total = sum(path.stat().st_size for path in log)
            limit = Limit("read and checksum", total / scan(log) / 1e6, "MB/s")
            shutil.rmtree(place / "pump-1" / "kv")
            without = await _start(stage)
            figures.append(
                Figure(
                    SECTION,
                    f"index of a log of {total >> 20} MiB, Prewrites of {size} B",
                    total / without / 1e6,
                    "MB/s",
                    limit,
                    AIM if size == SIZES[0][0] else None,
                    note=f"{without:.1f} s, {2 * int(count * share) / without:.0f} records/s",
                )
            )
            await stage.stop("pump-1")
            with_index = await _start(stage)
            figures.append(
                Figure(
                    SECTION,
                    f"start with its index, log of {total >> 20} MiB",
                    with_index,
                    "s",
                    empty,
                    lower_is_better=True,
                )
            )
    return figures


async def _start(stage: Stage) -> float:
    """Seconds until the Pump is online, its process and the joining included."""
    began = time.perf_counter()
    await stage.start("pump-1")
    return time.perf_counter() - began


def scan(log: list[Path]) -> float:
    """Seconds to read all files a MiB at a time and compare every record's checksum."""
    began = time.perf_counter()
    for path in log:
        at, rest = 0, b""
        with path.open("rb") as file:
            while data := file.read(READ_BYTES):
                found = record.split(rest + data, at)
                at += found.consumed
                rest = (rest + data)[found.consumed :]
                if found.bad and len(rest) != record.FOOTER_BYTES:
                    raise RuntimeError(f"{path.name} at {at}: {found.bad}")
    return time.perf_counter() - began
