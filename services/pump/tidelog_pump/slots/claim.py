"""Which slot of a shared directory is ours (design section 12).

`slots-dir` holds `slot-0`, `slot-1`, …, each a data directory of a Pump with its own lock and node
id. A starting Pump takes the lowest that is free, so that a set of Pumps that is restarted, or
scaled up again, finds the identities it had. If none is free it wants back one that a running Pump
has adopted (see adopter.py), by the file `wanted` in it, and waits for that; else it makes a new
one. One that can't be used at all (it is a file, or another user's) is said, and passed over.

The root's own lock gives one the turn at a time, to look or to change whose a slot is: a look takes
locks, if only to see who has them, and must not find one taken that is just being let go.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import structlog

from tidelog.errors import DirectoryLocked, Refused, TidelogError
from tidelog.ports import Disk, Lock, Ports
from tidelog_pump.identity import LOCK_FILE

log = structlog.get_logger()

TURN_FILE = ".slots"
ADOPTED, WANTED = "adopted", "wanted"
"""In a slot: a running Pump drains it beside its own; a starting one wants it back."""
TURN_S = 0.05
RETRY_S = 0.2
GIVE_BACK_S = 30.0
"""How long who has adopted a slot has to give it back: its orderly stop."""
_NAME = re.compile(r"slot-(0|[1-9]\d{0,5})")


class Slot(NamedTuple):
    """One that is ours: its name, its lock, ports on it, and ports on all of them. `adopted`: we
    only drain it."""

    name: str
    lock: Lock
    ports: Ports
    root: Ports
    adopted: bool = False


def slots(disk: Disk) -> list[str]:
    """The slots there are, in the order of their numbers."""
    found = [name for name in disk.listdir("") if _NAME.fullmatch(name)]
    return sorted(found, key=lambda name: int(name.removeprefix("slot-")))


def next_new(names: list[str]) -> str:
    """The name of the next slot to make: the lowest number that none has."""
    taken = set(names)
    return next(name for n in range(len(names) + 1) if (name := f"slot-{n}") not in taken)


async def claim(ports: Ports, most: int) -> Slot:
    """Take a slot. Raises Refused if there are `most` and all are taken."""
    clock, disk = ports.clock, ports.disk
    began, waits_for = clock.monotonic(), ""
    unusable: set[str] = set()
    while True:
        turn = await take_turn(ports)
        try:
            names = slots(disk)
            for name in names:
                if name not in unusable and (lock := _lock_of(disk, name, unusable)) is not None:
                    return await _ours(ports, name, lock)
            usable = [name for name in names if name not in unusable]
            adopted = [name for name in usable if disk.exists(f"{name}/{ADOPTED}")]
            if not adopted or clock.monotonic() - began > GIVE_BACK_S:
                return await _made(ports, names, most)
            if waits_for not in adopted:
                waits_for = adopted[0]
                log.info("wanted back", slot=waits_for)
                await disk.write_file(f"{waits_for}/{WANTED}", b"")
        finally:
            turn.release()
        await clock.sleep(RETRY_S)


async def take_turn(ports: Ports) -> Lock:
    """The root's lock. It is held for moments only."""
    while True:
        try:
            return ports.disk.lock(TURN_FILE)
        except DirectoryLocked:
            await ports.clock.sleep(TURN_S * (0.5 + ports.rng.random()))


def _lock_of(disk: Disk, name: str, unusable: set[str]) -> Lock | None:
    try:
        return try_lock(disk, name)
    except TidelogError as error:
        log.warning("a slot can't be used", slot=name, error=str(error))
        unusable.add(name)
        return None


def try_lock(disk: Disk, name: str) -> Lock | None:
    """None if another one has it. Raises IoFailed, DiskFull."""
    try:
        return disk.lock(f"{name}/{LOCK_FILE}")
    except DirectoryLocked:
        return None


async def unmark(disk: Disk, name: str) -> None:
    """Who has lock and turn says: it is adopted no more, nor wanted back."""
    for mark in (ADOPTED, WANTED):
        if disk.exists(f"{name}/{mark}"):
            await disk.remove(f"{name}/{mark}")


async def _ours(ports: Ports, name: str, lock: Lock) -> Slot:
    await unmark(ports.disk, name)
    await ports.disk.sync_dir("")  # who made it may have ended before this
    log.info("slot taken", slot=name)
    return Slot(name, lock, ports.within(name), ports)


async def _made(ports: Ports, names: list[str], most: int) -> Slot:
    if len(names) >= most:
        raise Refused(
            f"all {len(names)} slots are taken",
            hint="run fewer Pumps on this slots-dir, or allow more by max-slots",
        )
    name = next_new(names)
    ports.within(name)
    lock = ports.disk.lock(f"{name}/{LOCK_FILE}")
    return await _ours(ports, name, lock)
