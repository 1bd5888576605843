"""What a bench has found, as a file: the page is rendered from it, now or later."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from bench.about import About
from bench.figure import Figure, Limit


class Section(msgspec.Struct, frozen=True):
    """How one measurement was asked for: `share` of its time; what one run of it took."""

    name: str
    share: float
    seconds: float


class Result(msgspec.Struct, frozen=True):
    about: About
    runs: int
    sections: Sequence[Section]
    limits: Sequence[Limit]
    figures: Sequence[Figure]


def write(path: Path, result: Result) -> None:
    """Each figure with its `ratio` and whether it is `reached`, for who reads it by other means."""
    figures = [
        msgspec.structs.asdict(f) | {"ratio": f.ratio, "reached": f.reached} for f in result.figures
    ]
    body = msgspec.structs.asdict(result) | {"figures": figures}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(body), indent=1) + b"\n")


def read(path: Path) -> Result:
    """Raises msgspec.DecodeError."""
    return msgspec.json.decode(path.read_bytes(), type=Result)
