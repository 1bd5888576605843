"""The n-th I/O call fails, for every n of a Pump's life: start, load with rotation, gc, clean stop,
start again (reliability R6, after SQLite's loops).

Nothing of a failed batch is acked, the process ends with a typed error or lives on where that is
right, and the next start has everything that was acked: the files as they are, as after a process
that died; after a power loss; and after a power loss that comes later, when what a failed fsync had
left in the kernel's cache only is read no more.
"""

from __future__ import annotations

import asyncio
from itertools import count
from typing import NamedTuple

from tests.crash.check import look, write_on
from tests.crash.pump import Machine, Pump, ends, play
from tests.crash.pump_lives import LIFE, binlogs, closing, own
from tests.crash.recorder import Promise, Recorder, Wrong
from tidelog.errors import TidelogError
from tidelog_pump.parts import INDEX
from tidelog_pump.write.writer import Outcome

DISK_KINDS = ("io", "full", "short", "lost")
KV = "index"
AFTER = ("process", "power")
"""What else is lost with the call: the process only, or all that was not synced."""


class Ended(NamedTuple):
    """How a life with its n-th call failing went. `reached`: there was an n-th call; `failed`: its
    path, empty if it can't fail so; `error`: what ended the process, empty if it lived on; `told`:
    what somebody was told by it."""

    reached: bool
    failed: str
    error: str
    told: str = ""


class Ledger(Recorder):
    """What was handed in and acked, without images of the disk."""

    wrong = ""

    def note(self) -> None:
        """Nobody explores this life."""

    async def append(self, pump: Pump, payloads: list[bytes]) -> None:  # type: ignore[override]
        self.handed += payloads
        disk = pump.machine.disk

        def acked(outcomes: list[Outcome]) -> None:
            self.acked = len(self.handed)
            if any(path.endswith(".vlog") for path in disk.failed):
                self.wrong = f"acked after {disk.failed} failed"

        outcomes = await pump.append(payloads, acked)
        if any(outcomes) or self.wrong:
            raise Wrong(self.wrong or f"refused: {outcomes}")


def fail(nth: int, kind: str, after: str, calls: int = 1) -> Ended:
    """Two lives, or as many as it takes to make so many `calls`. Raises Wrong or what no failing
    call may lead to."""
    ended: Ended = play(lambda: _fail(nth, kind, after, calls), f"{nth}/{kind}")
    return ended


async def _fail(nth: int, kind: str, after: str, calls: int) -> Ended:
    machine = Machine(LIFE, seed=nth)
    ledger = Ledger(machine, Promise((), 0))
    if kind == KV:
        machine.fail_index_at = nth
    else:
        machine.disk.fail_nth(nth, kind)
    ended = await _live(machine, ledger, calls)
    failed = "".join(machine.disk.failed)
    reached = machine.disk.calls >= nth
    if kind == KV:
        reached = machine.indexes[INDEX].broken
        failed = INDEX if reached else ""
    if failed.endswith(".vlog") and not ended.error:
        raise Wrong(f"{failed} failed and the process went on")
    machine.disk.clear_faults()
    machine.disk.failed.clear()
    machine.fail_index_at = 0
    await _recover(machine, ledger, after)
    return ended._replace(failed=failed, reached=reached)


async def _live(machine: Machine, ledger: Ledger, calls: int) -> Ended:
    """Lives with all that a Pump does, up to the first error."""
    payloads = list(binlogs(21, 24, 150))
    pump: Pump | None = None
    try:
        for life in count():
            if life >= 2 and machine.disk.calls >= calls:
                break
            pump = None
            pump = Pump(machine)
            await pump.started()
            ledger.readable(await look(pump, ledger.promise))
            for at in range(0, len(payloads), 4):
                await ledger.append(pump, own(life, payloads[at : at + 4]))
            await ledger.append(pump, own(life, closing(payloads)[:-1]))
            await pump.idle()
            await pump.collect()
            await pump.stop()
    except TidelogError as error:
        if pump is None:
            return Ended(False, "", type(error).__name__)
        await asyncio.wait([pump.task], timeout=1)
        died = await ends(pump)
        await pump.kill()
        return Ended(False, "", type(died).__name__ if died else "", type(error).__name__)
    return Ended(False, "", "")


async def _recover(machine: Machine, ledger: Ledger, after: str) -> None:
    """Start on what is there, go on, lose the power, start again."""
    if after == "power":
        lose_power(machine)
    for _ in range(2):
        pump = Pump(machine)
        await pump.started()
        ledger.readable(await look(pump, ledger.promise))
        await write_on(pump, ledger)
        await look(pump, ledger.promise)
        await pump.kill()
        lose_power(machine)
    pump = Pump(machine)
    await pump.started()
    await look(pump, ledger.promise)
    await pump.stop()


def lose_power(machine: Machine) -> None:
    """All that was not synced is gone."""
    machine.disk.faults.keeps_unsynced = False
    machine.disk.crash()
    index = machine.indexes.get(INDEX)
    if index is not None:
        broken = index.broken
        machine.indexes[INDEX] = index.without_last(index.unsynced)
        machine.indexes[INDEX].broken = broken
