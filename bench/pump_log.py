"""A load as a Pump's log has it: Prewrites, their Commits some records behind them. And the DDL
history that names its rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from bench.binlogs import commit, prewrite, prewrite_value
from bench.frames import history, version
from bench.shapes import Load, encoded
from tidelog import record
from tidelog.real.clock import RealClock
from tidelog.timestamps import compose

UNDER_WAY = 16
"""Transactions at a time that are prewritten and not yet committed."""


class PumpLog(NamedTuple):
    """`history`: as `ddl-history` takes it."""

    directory: Path
    history: str
    bytes: int


def write(directory: Path, load: Load) -> PumpLog:
    """One file, not closed, of the load's measured part."""
    (directory / "value").mkdir(parents=True)
    first_ts = compose(RealClock().wall_ms()) - (1 << 40)
    log = directory / "value" / "000000.vlog"
    with log.open("wb") as file:
        for payload in _payloads(load, first_ts):
            file.write(record.frame(payload))
    jobs = directory / "history.json"
    jobs.write_bytes(msgspec.json.encode(history([load.table], first_ts)))
    return PumpLog(directory, f"file:{jobs}", log.stat().st_size)


def _payloads(load: Load, first_ts: int) -> Iterator[bytes]:
    transactions = load.measured
    for begin in range(0, len(transactions), UNDER_WAY):
        some = list(enumerate(transactions[begin : begin + UNDER_WAY], begin))
        for number, changes in some:
            rows = encoded(load.table, changes)
            value = prewrite_value(version([load.table]), load.table.info.id, rows)
            yield prewrite(first_ts + 2 * number, value)
        for number, _ in some:
            yield commit(first_ts + 2 * number, first_ts + 2 * number + 1)
