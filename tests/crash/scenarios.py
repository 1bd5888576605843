"""Every update protocol, by scenarios: who lives, and how a start on what a power loss left of that
is judged."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from tests.crash import (
    appended,
    check,
    drainer_files,
    file_downstream,
    ledger,
    pump_lives,
    relay_log,
)
from tests.crash.pump_lives import PumpLife
from tests.crash.recorder import Moment, State

PROTOCOLS = (
    "append",
    "rotate",
    "seal",
    "gc",
    "index save",
    "checkpoint",
    "relay append",
    "relay purge",
)
"""Of reliability R1. Checkpoint: what is durable outside of databases, of everybody but Pumps."""


class Scenario(NamedTuple):
    """`record`: the moments in which the power may go. `check`: start on what that left, and on;
    returns the moments of that. Raises Wrong, or what the real code raises."""

    name: str
    protocol: str
    record: Callable[[], list[Moment]]
    check: Callable[[State], list[Moment]]
    weight: int = 1
    """Its share of the states."""


def _pump(name: str, protocol: str, life: PumpLife, weight: int) -> Scenario:
    def met(state: State) -> list[Moment]:
        return check.check(state, life.config)

    return Scenario(name, protocol, partial(pump_lives.record_moments, life), met, weight)


def _store(
    name: str, protocol: str, make: ledger.MakeStore, live: ledger.Live, weight: int
) -> Scenario:
    record = partial(ledger.record_moments, make, live)
    return Scenario(name, protocol, record, partial(ledger.check, make), weight)


SCENARIOS = (
    _pump("append", "append", pump_lives.APPEND, 3),
    _pump("rotate", "rotate", pump_lives.ROTATE, 3),
    _pump("seal", "seal", pump_lives.SEAL, 2),
    _pump("gc", "gc", pump_lives.GC, 3),
    _pump("index", "index save", pump_lives.INDEX_SAVES, 2),
    _pump("chaser", "index save", pump_lives.CHASER, 2),
    _pump("first start", "append", pump_lives.FIRST_START, 1),
    _pump("unsynced", "append", pump_lives.UNSYNCED, 2),
    _pump("marks", "index save", pump_lives.MARKS, 2),
    _store("drainer", "checkpoint", drainer_files.DrainerFiles, drainer_files.checkpoints, 1),
    _store("files", "checkpoint", file_downstream.Files, file_downstream.checkpoints, 3),
    _store("ddls", "checkpoint", appended.DdlHistory, appended.ddls, 2),
    _store("decisions", "checkpoint", appended.Decisions, appended.decisions, 2),
    _store("relay", "relay append", relay_log.small_files, relay_log.appends, 3),
    _store("large relay", "relay append", relay_log.larger_files, relay_log.appends, 1),
    _store("purge", "relay purge", relay_log.small_files, relay_log.purges, 3),
    _store("large purge", "relay purge", relay_log.larger_files, relay_log.purges, 1),
)


def named(name: str) -> Scenario:
    return next(scenario for scenario in SCENARIOS if scenario.name == name)
