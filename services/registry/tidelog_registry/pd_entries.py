"""The nodes as PD's etcd shows them, and what others changed there. Pure.

The original's TiDB, Drainer and binlogctl read these entries (seed 000, "Pump status definition").
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tidelog.messages import (
    CLOSING,
    DRAINER,
    JOINING,
    OFFLINE,
    ONLINE,
    PAUSED,
    PAUSING,
    PUMP,
    NodeStatus,
    StateRequest,
)
from tidelog.unreadable import NOT_READABLE

ROOT = "/tidb-binlog/v1/"
PLACES = {PUMP: ROOT + "pumps/", DRAINER: ROOT + "drainers/"}
WISHES = {
    ONLINE: "resume",
    PAUSING: "pause",
    PAUSED: "pause",
    CLOSING: "offline",
    OFFLINE: "offline",
}
"""What a state means that an operator wrote. `offline` drains: what a key says accepts no loss."""


class Entry(msgspec.Struct, frozen=True):
    """The original's Status, with its names in its order."""

    nodeId: str
    host: str
    state: str
    isAlive: bool = False
    score: int = 0
    label: dict[str, object] | None = None
    maxCommitTS: int = 0
    updateTS: int = 0


class Found(msgspec.Struct, frozen=True):
    """A key as it stands there; `revision`: its last change."""

    value: bytes
    revision: int


class Write(msgspec.Struct, frozen=True):
    """`revision`: the change that it follows; 0 = the key is new."""

    key: str
    entry: Entry
    revision: int


class Plan(msgspec.Struct):
    """`foreign`: entries of somebody else's nodes, left alone. `odd`: what was found instead of
    ours and means nothing (deleted, unreadable), and is put right."""

    writes: list[Write] = []
    wishes: list[StateRequest] = []
    foreign: list[str] = []
    odd: list[str] = []


class PdEntries:
    """Remembers what it wrote: only against that a change is somebody's."""

    def __init__(self) -> None:
        self._tried: dict[str, Entry] = {}
        self._revisions: dict[str, int] = {}

    def plan(self, nodes: Sequence[NodeStatus], found: dict[str, Found]) -> Plan:
        """What to write now, and what was wished there since the last look. A Pump that joins is
        not shown: a TiDB would write to it."""
        plan = Plan()
        for node in nodes:
            if node.kind in PLACES and node.state != JOINING:
                self._compare(plan, node, found)
        return plan

    def _compare(self, plan: Plan, node: NodeStatus, found: dict[str, Found]) -> None:
        key = PLACES[node.kind] + node.nodeId
        there, was = found.get(key), self._tried.get(key)
        ours = entry_of(node)
        if there is None:
            if self._revisions.pop(key, 0):
                plan.odd.append(key)
            plan.writes.append(Write(key, ours, 0))
            return
        said = _read(there.value)
        if was is None and said is not None and _anothers(said, ours):
            plan.foreign.append(key)
            return
        if was is not None and there.revision != self._revisions.get(key):
            # Once only, whatever becomes of the order and of the answer.
            self._revisions[key] = there.revision
            if said is None or said.state not in WISHES:
                plan.odd.append(key)
            elif said.state not in (was.state, ours.state):
                plan.wishes.append(StateRequest(node.nodeId, WISHES[said.state], kind=node.kind))
        if said != ours:
            plan.writes.append(Write(key, ours, there.revision))
        else:
            self._tried[key], self._revisions[key] = ours, there.revision

    def trying(self, write: Write) -> None:
        """It may be written from now on, whether or not that is told."""
        self._tried[write.key] = write.entry

    def wrote(self, write: Write, revision: int) -> None:
        self._revisions[write.key] = revision


def entry_of(node: NodeStatus) -> Entry:
    return Entry(
        node.nodeId,
        node.host or node.http,
        node.state,
        node.isAlive,
        maxCommitTS=node.maxCommitTS,
        updateTS=node.updateTS,
    )


def _anothers(said: Entry, ours: Entry) -> bool:
    """Is it another node of that id? One that is offline lets its id go."""
    return said.host != ours.host and said.state != OFFLINE


def _read(value: bytes) -> Entry | None:
    try:
        return msgspec.json.decode(value, type=Entry)
    except NOT_READABLE:
        return None
