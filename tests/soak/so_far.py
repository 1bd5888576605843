"""What a soak has done in its parts up to now, and the file that a later part takes it from."""

from __future__ import annotations

from pathlib import Path

import msgspec

from tests.soak.slopes import Sample

FILE = "soak.json"
TOPOLOGY = "top"


class BrokenOff(Exception):
    """What was committed by a part that did not end is nowhere written down."""


class SoFar(msgspec.Struct, kw_only=True):
    """`seconds` of load; `position`: commit_ts up to which the stream was read and compared;
    `kills`: who, and how many seconds until the downstream was there again; `rss` in MiB."""

    seed: int
    parts: int = 0
    seconds: float = 0.0
    committed: int = 0
    read: int = 0
    position: int = 0
    kills: list[tuple[str, float]] = []
    wrong: list[str] = []
    rss: dict[str, list[Sample]] = {}
    descriptors: dict[str, list[Sample]] = {}

    def lives(self, name: str) -> int:
        """How many processes of that name were seen."""
        samples = self.rss.get(name)
        return samples[-1].life + 1 if samples else 0


def take(home: Path, seed: int) -> SoFar:
    """Of the parts before, in `home`; else one that begins with `seed`. The file is away until the
    part has ended: what comes after one that was broken off could not be compared. Raises
    BrokenOff."""
    path = home / FILE
    if not path.exists():
        if (home / TOPOLOGY).exists():
            raise BrokenOff(f"a part of the soak in {home} did not end: begin in another directory")
        return SoFar(seed=seed)
    so_far = msgspec.json.decode(path.read_bytes(), type=SoFar)
    path.unlink()
    return so_far


def save(home: Path, so_far: SoFar) -> None:
    (home / FILE).write_bytes(msgspec.json.encode(so_far))
