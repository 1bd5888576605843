"""What a reader of logs asks for, from Spark's options. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Literal, cast, get_args

import msgspec

from tidelog.errors import ConfigError
from tidelog.timestamps import LOGICAL_MAX, TS_MAX, parse_ts
from tidelog_backfill.files.records import OnCorrupt

RowForm = Literal["decoded", "raw", "lost"]
_KNOWN = (
    "path",
    "rows",
    "tables",
    "table",
    "from",
    "until",
    "ddl-history",
    "on-corrupt",
    "chunk-bytes",
)


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """`paths`: one directory, or those of several Pumps, with commas between. `rows`: changes,
    records as they lie in the files, or what on-corrupt=skip passes by and the log itself says it
    lacks. `tables`: `db.table` with wildcards, commas between; `table`: one, typed. Changes with
    after_ts < commit_ts <= until_ts. `ddl_history`: for Pumps' logs."""

    paths: tuple[str, ...]
    rows: RowForm = "decoded"
    tables: tuple[str, ...] = ()
    table: str = ""
    after_ts: int = 0
    until_ts: int = TS_MAX
    ddl_history: str = ""
    on_corrupt: OnCorrupt = "stop"
    chunk_bytes: int = 0
    """0: as the log's size has it."""

    @property
    def wanted(self) -> tuple[str, ...]:
        """Patterns of the tables that are read."""
        return (self.table,) if self.table else self.tables


def parse(options: Mapping[str, str]) -> Options:
    """Raises ConfigError, which names the option."""
    for name in options:
        if name.lower() not in _KNOWN:
            near = get_close_matches(name.lower(), _KNOWN, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(_KNOWN)}"
            raise ConfigError(f"there is no option {name}", hint=hint)
    given = {name.lower(): value for name, value in options.items()}
    found = Options(
        paths=_list(given.get("path", "")),
        rows=cast(RowForm, _one_of("rows", given, get_args(RowForm))),
        tables=_list(given.get("tables", "")),
        table=given.get("table", ""),
        after_ts=_after(given.get("from", "")),
        until_ts=_until(given.get("until", "")),
        ddl_history=given.get("ddl-history", ""),
        on_corrupt=cast(OnCorrupt, _one_of("on-corrupt", given, get_args(OnCorrupt))),
        chunk_bytes=_bytes(given.get("chunk-bytes", "")),
    )
    if not found.paths:
        raise ConfigError("no log is named", hint='.load("DIRECTORY")')
    if found.table and (found.tables or found.rows != "decoded"):
        raise ConfigError("table is one table, typed: neither tables nor rows goes with it")
    return found


def _list(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _one_of(name: str, given: Mapping[str, str], allowed: tuple[str, ...]) -> str:
    value = given.get(name, allowed[0])
    if value not in allowed:
        raise ConfigError(f"{name} is {' or '.join(allowed)}, not {value!r}")
    return value


def _ts(name: str, text: str) -> int:
    try:
        return parse_ts(text)
    except ValueError as error:
        hint = "a commit_ts, or a time such as 2026-11-21T10:20:00"
        raise ConfigError(f"{name}: {error}", hint=hint) from error


def _after(text: str) -> int:
    if not text:
        return 0
    ts = _ts("from", text)
    return max(0, ts - 1 if text.isdigit() else ts - LOGICAL_MAX - 1)


def _until(text: str) -> int:
    return _ts("until", text) if text else TS_MAX


def _bytes(text: str) -> int:
    if not text:
        return 0
    if not text.isdigit() or not int(text):
        raise ConfigError(f"chunk-bytes is a number of bytes, not {text!r}")
    return int(text)
