"""A TOML file with the line of each key, so that what is wrong in it can be pointed at."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tidelog.errors import ConfigError

_TABLE = re.compile(r"\s*\[\[?\s*([^\[\]]+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"\s*([\w\-.\"']+)\s*=")

Names = tuple[str, ...]
MAPS = {("syncer", "binlog-filter-rule"), ("syncer", "to", "params")}
"""Tables whose keys are names that the user gives."""


class Entry(NamedTuple):
    """One key of the file. `-` and `_` in names are the same; `line` counts from 1."""

    key: str
    value: Any
    line: int


def read(path: Path) -> list[Entry]:
    """Every key that holds a value or a list of tables, as `table.key`, in the file's order; keys
    within MAPS are values of their table. Raises ConfigError, which names file and line."""
    try:
        text = path.read_text(encoding="utf-8")
        document = tomllib.loads(text)
    except (OSError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{path} can't be read: {error}") from error
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"at line (\d+)", str(error))
        where = f"{path}:{found[1]}" if found else str(path)
        raise ConfigError(f"{where}: {error}") from error
    lines: dict[str, int] = {}
    for key, line in _lines(text):
        lines.setdefault(key, line)
    return [Entry(key, value, lines.get(key, 1)) for key, value in _walk(document, ())]


def _walk(table: dict[str, Any], at: Names) -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        here = (*at, _plain(name))
        if isinstance(value, dict) and here not in MAPS:
            yield from _walk(value, here)
        else:
            yield ".".join(here), value


def _plain(name: str) -> str:
    return name.strip("\"' ").replace("_", "-")


def _lines(text: str) -> Iterator[tuple[str, int]]:
    """Of each table and each key the lines that begin it."""
    table: Names = ()
    for number, line in enumerate(text.splitlines(), 1):
        if (header := _TABLE.match(line)) is not None:
            table = tuple(map(_plain, header[1].split(".")))
            for length in range(1, len(table) + 1):
                yield ".".join(table[:length]), number
        elif (key := _KEY.match(line)) is not None:
            yield ".".join((*table, *map(_plain, key[1].split(".")))), number
