"""What a run of histories has to reach, found in the code itself, and how often it did.

Every message that an actor's mailbox takes, every change of a node's state, every fault. What no
history reaches is tested by none: a run of ENOUGH histories fails for it, by name. `EXCUSED` says
why something needn't be reached; what is excused and comes about often all the same fails, too.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterator
from types import UnionType
from typing import Any, Union, get_args, get_origin

from tests.simulation.plan import ACTIONS, ALL_EVENTS, TAKEOVER, TIDB_FAULTS
from tests.simulation.tidb import MOMENTS
from tidelog.actor import Actor, Nothing
from tidelog.messages import APPLIER, DRAINER, PUMP
from tidelog.sim.faults import Injected
from tidelog_registry.nodes import node_state

ENOUGH = 160
"""Histories among which everything must have happened."""
OF_TIDB = (*TIDB_FAULTS, *MOMENTS)
ENOUGH_OF_TIDB = 40
"""Histories with the oracle `pd`, among which all of OF_TIDB must have happened."""

reached: Counter[str] = Counter()
"""In the history that plays now."""

Cell = tuple[str, str]
"""(event, state) of a node-state table."""

_READER = "drainer or applier"
_READER_EVENTS = (
    *("returns", "returns-paused", "returns-closing"),
    *("stops", "left", "offline", "removed"),
)


def _reader(state: str, *events: str) -> tuple[str, ...]:
    return tuple(f"{_READER} {state}: {event}" for event in events)


_BY_REASON: dict[str, tuple[str, ...]] = {
    "a person asks: by HTTP, which histories don't have, or by a command that no history gives": (
        "applier Applier takes Asked",
        "drainer Publisher takes Control",
        "pump Gc takes Collect",
        "pump HttpEdge takes ShowBinlogs",
        "pump HttpEdge takes ShowReaders",
        "pump SorterActor takes ReadOpen",
        "pump Resolver takes Look",
        "registry Gatherer takes First",
        "registry Directory takes AskSafePoint",
        "tidelog Membership takes Announce",
    ),
    "the load commits like a TiDB, not by tidelog.connect (tests/unit/pump_client)": (
        "tidelog Coordinator takes Decide",
        "tidelog Coordinator takes Drain",
        "tidelog Coordinator takes LookUp",
        "tidelog Coordinator takes Question",
        "tidelog SchemaReader takes Refresh",
    ),
    "no reader of a history asks for a refill: all are registered (tests/unit/drainer)": (
        "drainer Rewinder takes AskRewind",
    ),
    "a Commit without its Prewrite needs a log that lost it (tests/unit/pump/test_late.py)": (
        "pump Indexer takes Note",
        "pump Verifier takes Accept",
        "pump Verifier takes ReadMissing",
    ),
    "a stream that ends an Applier's reading: one in a hundred (tests/unit/applier)": (
        "applier Applier takes Ended",
    ),
    "readers are never joining": _reader("joining", *_READER_EVENTS),
    "a reader is forgotten after ten minutes: one history in 200, but where it closes": tuple(
        f"{_READER} {state}: removed" for state in ("online", "pausing", "paused")
    ),
    "the registry's record that it left is lost and it still runs: one history in thousands"
    " (tests/unit/registry/test_forgotten_pumps.py, test_forgotten_orders.py)": (
        *(f"pump {state}: left" for state in ("joining", "online", "pausing", "paused")),
        *(f"{_READER} {state}: left" for state in ("online", "pausing", "paused")),
    ),
    "a process ends, or a memory is lost, within the moment of an order: too seldom to be demanded"
    " (tests/unit/registry/test_life_model.py, test_states.py)": (
        *_reader("online", "returns-paused", "returns-closing"),
        *_reader("pausing", "returns", "returns-closing", "stops", "resume", "offline"),
        *_reader("paused", "returns", "returns-closing", "stops", "offline"),
        *_reader("closing", "returns-paused", "stops"),
        *_reader("offline", "returns-paused", "returns-closing"),
        "pump online: removed",
        "pump online: returns-paused",
        "pump online: returns-closing",
        "pump pausing: removed",
        "pump pausing: returns",
        "pump pausing: returns-closing",
        "pump pausing: stops",
        "pump paused: offline",
        "pump paused: returns-closing",
        "pump closing: removed",
        "pump closing: returns-paused",
        "pump offline: returns-paused",
        "pump offline: returns-closing",
    ),
}
EXCUSED = {name: reason for reason, names in _BY_REASON.items() for name in names}
SELDOM = 0.04
"""What comes in so many of the histories needs no excuse."""


class _Counted(dict[Cell, str]):
    """A node-state table that counts what is looked up."""

    def __init__(self, kind: str, table: dict[Cell, str]) -> None:
        super().__init__(table)
        self._kind = kind

    def __getitem__(self, cell: Cell) -> str:
        after = super().__getitem__(cell)
        if after != cell[1]:
            reached[_transition(self._kind, cell)] += 1
        return after


def _transition(kind: str, cell: Cell) -> str:
    event, state = cell
    return f"{kind} {state}: {event}"


def _actors(base: type[Actor[Any]] = Actor) -> Iterator[type[Actor[Any]]]:
    """Those of the library and of the services that histories play."""
    for actor in base.__subclasses__():
        if actor.__module__.startswith("tidelog"):
            yield actor
        yield from _actors(actor)


def _takes(actor: type[Actor[Any]]) -> list[type]:
    """The messages that its mailbox is declared to take."""
    declared: list[Any] = [
        part
        for base in getattr(actor, "__orig_bases__", ())
        if get_origin(base) is Actor
        for part in get_args(base)
    ]
    found: list[type] = []
    while declared:
        part = declared.pop()
        if get_origin(part) in (Union, UnionType):
            declared.extend(get_args(part))
        elif isinstance(part, type) and part not in (Nothing, type(None)):
            found.append(part)
    return found


def _message(actor: type, message: type) -> str:
    room = actor.__module__.split(".")[0].removeprefix("tidelog_")
    return f"{room} {actor.__name__} takes {message.__name__}"


def _count_batches(actor: type[Actor[Any]]) -> None:
    handle: Callable[..., Any] = actor.on_batch
    names: dict[type, str] = {}

    @functools.wraps(handle)
    def counted(self: Actor[Any], batch: list[Any]) -> Any:
        for message in batch:
            kind = type(message)
            name = names.get(kind)
            if name is None:
                name = names[kind] = _message(actor, kind)
            reached[name] += 1
        return handle(self, batch)

    actor.on_batch = counted  # type: ignore[method-assign]


@functools.cache
def wanted() -> tuple[str, ...]:
    """All that there is to reach; the first call begins to count. Call it when the services are
    imported."""
    names = [*ACTIONS, *ALL_EVENTS, TAKEOVER, *Injected]
    for actor in list(_actors()):
        if takes := _takes(actor):
            names.extend(_message(actor, message) for message in takes)
            _count_batches(actor)
    tables = {PUMP: node_state._PUMPS, f"{DRAINER} or {APPLIER}": node_state._READERS}
    for kind, table in tables.items():
        names.extend(_transition(kind, cell) for cell, after in table.items() if after != cell[1])
    node_state._PUMPS, node_state._READERS = (_Counted(*pair) for pair in tables.items())
    return tuple(str(name) for name in names)


def missed(counts: Counter[str], histories: int, of_tidb: int = 0) -> list[str]:
    """What so many histories should have reached and did not, or should not have. `of_tidb`: how
    many have the oracle `pd`, beside the others."""
    lacks = [name for name in OF_TIDB if not counts[name]] if of_tidb >= ENOUGH_OF_TIDB else []
    if histories < ENOUGH:
        return lacks
    never = lacks + [name for name in wanted() if not counts[name] and name not in EXCUSED]
    often = SELDOM * histories
    return never + [f"{name} (excused)" for name in EXCUSED if counts[name] > often]
