"""TOML as an import writes it: each key with where it came from, and what has no meaning here."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import date, time
from pathlib import Path
from typing import Any, NamedTuple

_BARE = re.compile(r"[A-Za-z0-9_-]+")


class Written(NamedTuple):
    """The original's `key` at `line` (0 = it has none) as `ours` (empty = it has none here)."""

    key: str
    line: int
    ours: str = ""
    value: Any = None
    note: str = ""


def text(source: Path, keys: Sequence[Written], before: Sequence[str] = ()) -> str:
    """A configuration file. Of keys that mean one of ours, the last counts, as in the original."""
    last = {written.ours: written for written in keys if written.ours}
    top = [w for name, w in last.items() if "." not in name]
    lines = [f"# From {source.name} of TiDB Binlog, by `tidelog config import`.", *before, ""]
    lines += [_line(source, written, written.ours) for written in top]
    tables = sorted({name.rpartition(".")[0] for name in last if "." in name})
    for table in tables:
        lines += ["", f"[{table}]"]
        lines += [
            _line(source, written, name.removeprefix(f"{table}."))
            for name, written in last.items()
            if name.rpartition(".")[0] == table
        ]
    without = [f"# {w.key} (line {w.line}): {w.note}" for w in keys if not w.ours]
    if without:
        lines += ["", "# What has no key of its own here:", *without]
    return "\n".join(lines) + "\n"


def _line(source: Path, written: Written, name: str) -> str:
    came = f"{source.name}:{written.line} {written.key}" if written.line else ""
    said = "; ".join(filter(None, (came, written.note)))
    return f"{name} = {_value(written.value)}" + f"  # {said}" * bool(said)


def _value(value: Any) -> str:
    """On one line."""
    if isinstance(value, dict):
        inner = ", ".join(f"{_name(name)} = {_value(each)}" for name, each in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, date | time):
        return value.isoformat()
    return repr(value) if isinstance(value, float) else json.dumps(value)


def _name(name: str) -> str:
    return name if _BARE.fullmatch(name) else json.dumps(name, ensure_ascii=False)
