"""Names of pb_binlog files: `binlog-<16 digits>-<yyyymmddhhmmss>`. Pure.

The digits count from 0; the date tells when the file was begun, ours in UTC by its first commit_ts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime

import msgspec

from tidelog.timestamps import physical_ms

SAVEPOINT = "savepoint"
LOCK = ".lock"
# Without a date: the original's oldest. Compressed by hand, with the last commit_ts: its tools'.
_NAME = re.compile(r"binlog-(\d{16})(?:-(\d{14}))?(?:-\d+)?(\.tar\.gz|\.gz)?")
_DATE = "%Y%m%d%H%M%S"


class FileName(msgspec.Struct, frozen=True):
    """`begun_ms`: Unix milliseconds of the date, 0 without one; `packed`: "", ".gz", ".tar.gz"."""

    text: str
    number: int
    begun_ms: int = 0
    packed: str = ""


def file_name(number: int, commit_ts: int) -> str:
    """Of file `number`, whose first record is of commit_ts."""
    date = datetime.fromtimestamp(physical_ms(commit_ts) / 1000, UTC).strftime(_DATE)
    return f"binlog-{number:016d}-{date}"


def parse(text: str) -> FileName | None:
    """None: it is no such file."""
    found = _NAME.fullmatch(text)
    if found is None:
        return None
    begun = 0
    if found[2]:
        try:
            date = datetime.strptime(found[2], _DATE).replace(tzinfo=UTC)
        except ValueError:
            return None
        begun = int(date.timestamp() * 1000)
    return FileName(text, int(found[1]), begun, found[3] or "")


def in_order(names: Iterable[str]) -> list[FileName]:
    """The files among `names`, by their numbers."""
    found = [name for text in names if (name := parse(text)) is not None]
    return sorted(found, key=lambda name: name.number)
