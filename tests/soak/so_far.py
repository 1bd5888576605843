"""What a soak has done in its parts up to now, and the file that a later part takes it from."""

from __future__ import annotations

from pathlib import Path

import msgspec

from tests.soak.slopes import Sample

FILE = "soak.json"
TOPOLOGY = "top"


class NotToBeContinued(Exception):
    """What is in the directory is no soak that this command may go on with."""


class Asked(msgspec.Struct, frozen=True):
    """The whole soak: seconds, transactions a second, seconds between two kills."""

    seconds: float
    rate: float
    kill_each_s: float


class SoFar(msgspec.Struct, kw_only=True):
    """`seconds` of load; `commits`: of which sources each part was; `position`: commit_ts up to
    which the stream was read and compared; `kills`: who, and how many seconds until the downstream
    was there again; `rss` in MiB."""

    seed: int
    asked: Asked
    commits: list[str] = []
    seconds: float = 0.0
    committed: int = 0
    read: int = 0
    position: int = 0
    kills: list[tuple[str, float]] = []
    wrong: list[str] = []
    rss: dict[str, list[Sample]] = {}
    descriptors: dict[str, list[Sample]] = {}

    @property
    def whole(self) -> bool:
        return self.seconds >= self.asked.seconds

    def lives(self, name: str) -> int:
        """How many processes of that name were seen."""
        samples = self.rss.get(name)
        return samples[-1].life + 1 if samples else 0


def take(home: Path, asked: Asked, seed: int) -> SoFar:
    """Of the parts before, in `home`; else one that begins with `seed`. The file is away until the
    part has ended: what was committed by one that was broken off is nowhere written down. Raises
    NotToBeContinued."""
    path = home / FILE
    if not path.exists():
        if (home / TOPOLOGY).exists():
            raise NotToBeContinued(f"a part of the soak in {home} did not end: begin elsewhere")
        return SoFar(seed=seed, asked=asked)
    so_far = msgspec.json.decode(path.read_bytes(), type=SoFar)
    if so_far.asked != asked:
        raise NotToBeContinued(f"the soak in {home} is another one: {so_far.asked}")
    if so_far.whole:
        raise NotToBeContinued(f"the soak in {home} is whole: begin another one elsewhere")
    path.unlink()
    return so_far


def save(home: Path, so_far: SoFar) -> None:
    (home / FILE).write_bytes(msgspec.json.encode(so_far))
