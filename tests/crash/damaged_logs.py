"""Damaged logs: the Pump's segments, the relay, the DDL history, a writer's decisions. How each is
made, opened and judged."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import pytest

from tests.crash.appended import DdlHistory, Decisions, ddls
from tests.crash.ledger import Ledger, Live, MakeStore, Store, started
from tests.unit.pump import test_log_damage as segment
from tests.unit.pump.driven import Machine, drive
from tests.unit.relay import test_relay_damage as relay
from tidelog.errors import Corrupt
from tidelog.pump_client.decisions import journal
from tidelog_registry import ddl_store

DETECTED, HARMLESS, TORN = "detected", "harmless", "torn tail"
Judge = Callable[[bytes, int], str]
WHERE = re.compile(r"\boffset (\d+)\b")
_SEGMENT = {"start": DETECTED, "scan": DETECTED, "whole": HARMLESS, "cut": TORN}
_RELAY = {"Corrupt": DETECTED, "RelayGap": DETECTED, "prefix": TORN}


def of_segment(which: str) -> tuple[bytes, Judge]:
    """4 KiB; see the table in `test_log_damage`."""
    with pytest.MonkeyPatch.context() as patch:
        case = segment.made(patch, which)
    machine = Machine()
    whole = case.files[segment.PLACE]
    assert whole is not None

    def judge(data: bytes, hurt: int) -> str:
        told = _SEGMENT[segment.outcome(machine, case, data, hurt)]
        assert told != TORN or which == "unsynced", "cut before the synced offset"
        return told

    return whole, judge


def of_relay(which: str) -> tuple[bytes, Judge]:
    """More than 4 KiB; see the table in `test_relay_damage`."""
    case, machine = relay.made(which, 3600), Machine()
    whole = case.files[case.place]
    assert whole is not None

    def judge(data: bytes, hurt: int) -> str:
        told = _RELAY[relay.outcome(machine, case, data, hurt)]
        assert told != TORN or which == "unsynced", "cut before the synced offset"
        return told

    return whole, judge


def of_store(make: Callable[..., Store], live: Live, path: str) -> tuple[bytes, Judge]:
    """A log that is read whole at its start, all of it synced."""
    machine = Machine()
    ledger = Ledger(machine.disk, watched=False)

    async def written() -> None:
        while not machine.mount().exists(path) or machine.mount().size(path) < 4096:
            await live(make, machine, ledger)

    drive(written())
    mounted = machine.mount()
    files = {name: mounted.read_file(name) for name in mounted.listdir("")}

    async def started() -> str:
        store = make(machine.mount(), ledger)
        await store.open()
        assert await store.look() == len(ledger.handed)
        return HARMLESS

    def judge(data: bytes, hurt: int) -> str:
        machine.disk.restore({**files, path: data})
        try:
            return drive(started())
        except Corrupt as error:
            refused = error
        told = WHERE.search(refused.message)
        assert told, refused
        assert path in refused.message
        assert int(told[1]) <= hurt
        return DETECTED

    return files[path], judge


async def many(make: MakeStore, machine: Machine, ledger: Ledger) -> None:
    """Decisions of which none is forgotten."""
    store = await started(make, machine, ledger)
    assert isinstance(store, Decisions)
    await store.append(130)


KINDS: dict[str, Callable[[], tuple[bytes, Judge]]] = {
    "segment, closed": partial(of_segment, "rotated"),
    "segment, synced": partial(of_segment, "synced"),
    "segment, unsynced": partial(of_segment, "unsynced"),
    "relay, closed": partial(of_relay, "closed"),
    "relay, synced": partial(of_relay, "synced"),
    "DDL history": partial(of_store, DdlHistory, ddls, ddl_store.PATH),
    "decisions": partial(of_store, Decisions, many, journal.PATH),
}
