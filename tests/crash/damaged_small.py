"""Damaged small files that are replaced whole: what a Pump has purged, a Drainer's sources, a file
downstream's checkpoint."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, cast

from tests.crash.file_downstream import TARGET
from tests.unit.pump.driven import Machine, drive
from tidelog.downstreams.files import FilesDownstream
from tidelog.errors import Corrupt, Stopped
from tidelog.pb_files import names, savepoint
from tidelog.pb_files.savepoint import Savepoint
from tidelog_drainer.merge.sources import SOURCES_FILE, Sources
from tidelog_pump.log.purge import PURGED_FILE, PurgePoint, PurgeRecord

DETECTED, HARMLESS = "detected", "harmless"
Judge = Callable[[bytes, int], str]
WHERE = re.compile(
    r"offset \d+|byte \d+|position \d+|truncated|line \d+|end of document|missing required"
    r"|belongs to"
)
"""In JSON that can't be parsed msgspec says where, in TOML its parser; or that the file ends; of
one cut between two lines, what it lacks. Cut before our own keys it is taken for the original's."""
TS = 470_000_000_000_000_000


def _judged(path: str, whole: bytes, load: Callable[[Machine], Any]) -> tuple[bytes, Judge]:
    machine = Machine()
    machine.disk.restore({path: whole})
    right = load(machine)

    def judge(data: bytes, hurt: int) -> str:
        machine.disk.restore({path: data})
        try:
            found = load(machine)
        except (Corrupt, Stopped) as error:
            refused = error
        else:
            assert found == right, found
            return HARMLESS
        assert path in refused.message or TARGET.shown in refused.message, refused
        assert WHERE.search(refused.message), refused
        return DETECTED

    return whole, judge


def purged() -> tuple[bytes, Judge]:
    record = PurgeRecord(
        TS, 212, [(TS + n, TS + n + 3) for n in range(110)], ["feed shop"] * 9, [TS - 7]
    )

    def load(machine: Machine) -> PurgeRecord:
        return PurgePoint(machine.mount(), cast(Any, None)).record

    machine = Machine()
    disk = machine.mount()
    drive(PurgePoint(disk, cast(Any, disk)).move(record))
    return _judged(PURGED_FILE, machine.mount().read_file(PURGED_FILE), load)


def sources() -> tuple[bytes, Judge]:
    def load(machine: Machine) -> dict[str, int]:
        return Sources(machine.mount()).begin(TS, chain=0)

    machine = Machine()
    kept = Sources(machine.mount())
    kept.begin(TS - 5, chain=0)
    for n in range(100):
        kept.added(f"pump-{n}", TS - 100 - n, TS)
    drive(kept.keep([f"pump-{n}" for n in range(200)]))
    return _judged(SOURCES_FILE, machine.mount().read_file(SOURCES_FILE), load)


def checkpoint() -> tuple[bytes, Judge]:
    saved = Savepoint(
        TS, True, 77, "shop", 12, 3456, (71, 72), {f"node-{n}": TS + n for n in range(190)}
    )

    def load(machine: Machine) -> Savepoint:
        downstream = FilesDownstream(TARGET, lambda _: machine.mount())
        downstream._feed = saved.feed
        return drive(downstream._load(machine.mount()))

    return _judged(names.SAVEPOINT, savepoint.dump(saved), load)


KINDS: dict[str, Callable[[], tuple[bytes, Judge]]] = {
    "purge point": purged,
    "sources": sources,
    "checkpoint": checkpoint,
}
