"""The file `savepoint` beside pb_binlog files: the original's TOML keys, and ours. Pure.

commitTS, consistent and schema-version are the original's. `file` and `offset` say up to where the
files hold whole transactions: what stands behind was being written. A comment has the checksum of
all other lines, as a flipped bit would else be another number; a file without it is the original's,
or an earlier release's.
"""

from __future__ import annotations

import re
import tomllib

import msgspec
from crc32c import crc32c

from tidelog.errors import Stopped

_SEAL = re.compile(rb"^# crc32c ([0-9a-f]{8})\n", re.MULTILINE)


class Savepoint(
    msgspec.Struct,
    frozen=True,
    rename={
        "commit_ts": "commitTS",
        "schema_version": "schema-version",
        "ddls_done": "ddls-done",
        "ts_map": "ts-map",
    },
):
    """`file` -1: nothing was written yet; None: another program's savepoint, without it."""

    commit_ts: int
    consistent: bool = False
    schema_version: int = 0
    feed: str = ""
    file: int | None = None
    offset: int = 0
    ddls_done: tuple[int, ...] = ()
    ts_map: dict[str, int] = {}


def load(data: bytes) -> Savepoint:
    """Raises Stopped."""
    try:
        found = _SEAL.search(data)
        if found is not None and crc32c(data[: found.start()] + data[found.end() :]) != int(
            found[1], 16
        ):
            raise ValueError(f"at offset 0, {len(data)} bytes are not those that were written")
        return msgspec.convert(tomllib.loads(data.decode()), type=Savepoint)
    except (ValueError, RecursionError) as error:
        raise Stopped(
            f"the savepoint can't be read: {error}",
            hint="restore it from a backup, or give the feed an empty directory",
        ) from error


def dump(saved: Savepoint) -> bytes:
    lines = [
        f"consistent = {_text(saved.consistent)}",
        f"commitTS = {saved.commit_ts}",
        f"schema-version = {saved.schema_version}",
        f"feed = {_text(saved.feed)}",
        f"file = {-1 if saved.file is None else saved.file}",
        f"offset = {saved.offset}",
    ]
    if saved.ddls_done:
        lines.append(f"ddls-done = {_text(saved.ddls_done)}")
    if saved.ts_map:
        lines.append("\n[ts-map]")
        lines += [f"{_text(name)} = {value}" for name, value in saved.ts_map.items()]
    lines, rest = lines[:3], lines[3:]
    seal = crc32c("\n".join([*lines, *rest, ""]).encode())
    return "\n".join([*lines, f"# crc32c {seal:08x}", *rest, ""]).encode()


def _text(value: object) -> str:
    """Of booleans, texts and lists of numbers JSON and TOML are one."""
    return msgspec.json.encode(value).decode()
