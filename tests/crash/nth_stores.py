"""The n-th I/O call fails, for every n of a store's life: the relay log, a Drainer's files, a file
downstream, the DDL history, a writer's decisions (reliability R6; the Pump's are in `nth.py`).

Whoever made the call ends with a typed error, and nothing that rested on it is acked. The next
start has all that was acked: the files as they are, as after a process that died; after a power
loss; and after a power loss that comes later, when what a failed fsync had left in the kernel's
cache only is read no more.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.crash import appended, drainer_files, file_downstream, relay_log
from tests.crash.ledger import Ledger, Live, MakeStore, started
from tests.crash.recorder import Wrong
from tests.unit.pump.driven import Machine, drive
from tidelog.errors import TidelogError

STORES: dict[str, tuple[MakeStore, Live]] = {
    "relay": (relay_log.small_files, relay_log.purges),
    "large relay": (relay_log.larger_files, relay_log.appends),
    "drainer": (drainer_files.DrainerFiles, drainer_files.checkpoints),
    "files": (file_downstream.Files, file_downstream.checkpoints),
    "ddls": (appended.DdlHistory, appended.ddls),
    "decisions": (appended.Decisions, appended.decisions),
}


class Met(NamedTuple):
    """`failed`: the path of the call that failed; empty: it can't fail so. `error`: what its caller
    ended by. `over`: the life had no such call any more."""

    failed: str
    error: str
    over: bool


def fail(store: str, nth: int, kind: str, after: str, calls: int = 1) -> Met:
    """A life of at least so many `calls`. `after`: what else is lost, see `nth.AFTER`. Raises Wrong
    or what no failing call may lead to."""
    make, live = STORES[store]
    return drive(_fail(make, live, nth, kind, after, calls))


async def _fail(make: MakeStore, live: Live, nth: int, kind: str, after: str, calls: int) -> Met:
    machine = Machine(nth)
    ledger = Ledger(machine.disk, watched=False)
    machine.disk.fail_nth(nth, kind)
    error = ""
    try:
        await live(make, machine, ledger)
        while machine.disk.calls < calls:
            await live(make, machine, ledger)
    except TidelogError as ended:
        error = type(ended).__name__
    failed, over = "".join(machine.disk.failed), machine.disk.calls < nth
    if bool(failed) != bool(error):
        raise Wrong(f"{failed or 'nothing'} failed, and it ended with {error or 'nothing'}")
    machine.disk.clear_faults()
    machine.disk.failed.clear()
    await _recover(make, machine, ledger, after)
    return Met(failed, error, over)


async def _recover(make: MakeStore, machine: Machine, ledger: Ledger, after: str) -> None:
    """Start on what is there, lose the power, start again, go on, lose the power, …"""
    if after == "power":
        lose_power(machine)
    for writes in (False, True, True):
        store = await started(make, machine, ledger)
        if writes:
            await store.write_on()
            await store.look()
        lose_power(machine)
    await started(make, machine, ledger)


def lose_power(machine: Machine) -> None:
    """All that was not synced is gone."""
    machine.disk.faults.keeps_unsynced = False
    machine.disk.crash()
