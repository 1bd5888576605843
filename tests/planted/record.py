"""caught.json: what caught which bug, as the last search found it."""

from __future__ import annotations

from pathlib import Path

import msgspec

RECORD = Path(__file__).with_name("caught.json")


class Hunted(msgspec.Struct, frozen=True, kw_only=True):
    """By random histories, from seed 0 on: the first `seed` that caught it, None if none did;
    `histories` were played; `found` are the kinds of findings. `on`: which day; a seed plays
    another history when what it runs in changes."""

    seed: int | None
    found: list[str]
    histories: int
    on: str = ""


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """Of one bug. `shown` of `plays` seeds of its schedule caught it, the first by `seed`, or its
    test did (one play, no seed). `said`: the finding. `clean`: nothing is found without the bug."""

    caught: bool = False
    clean: bool = False
    shown: int = 0
    plays: int = 0
    seed: int | None = None
    said: str = ""
    hunt: Hunted | None = None

    @property
    def line(self) -> str:
        seeds = f"{self.shown} of {self.plays} find it"
        how = seeds if self.seed is not None else "its test finds it" if self.shown else "NOTHING"
        by = f"{how}, {'clean' if self.clean else 'NOT CLEAN'} without it"
        if self.hunt is None:
            return f"{by}; {self.said[:80]}"
        seed = f"seed {self.hunt.seed}" if self.hunt.seed is not None else "NOBODY"
        return f"{by}; hunted: {seed} of {self.hunt.histories} histories"


def load_all() -> dict[str, Record]:
    if not RECORD.exists():
        return {}
    return msgspec.json.decode(RECORD.read_bytes(), type=dict[str, Record])


def load(bug: str) -> Record:
    return load_all().get(bug, Record())


def save(bug: str, record: Record) -> None:
    found = {**load_all(), bug: record}
    text = msgspec.json.encode(dict(sorted(found.items())))
    RECORD.write_bytes(msgspec.json.format(text, indent=1) + b"\n")
