"""The nodes as PD's etcd shows them, and what others changed there. Pure.

The original's TiDB, Drainer and binlogctl read these entries (seed 000, "Pump status definition").
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec
from msgspec.structs import replace

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

T = TypeVar("T")
ROOT = "/tidb-binlog/v1/"
PLACES = {PUMP: "pumps/", DRAINER: "drainers/"}
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


class Shadow(msgspec.Struct, frozen=True):
    """What we wrote last, under a key of our own. It is written with the entry, in one transaction:
    as long as both are of one revision, nobody else has touched the entry."""

    state: str
    host: str


class Write(msgspec.Struct, frozen=True):
    """`name`: of the entry below ROOT, and of its shadow. `revision`: the change of the entry that
    it follows; 0 = it is new."""

    name: str
    entry: Entry
    revision: int

    @property
    def shadow(self) -> Shadow:
        return Shadow(self.entry.state, self.entry.host)


class Plan(msgspec.Struct):
    """Names of entries: `foreign`, of somebody else's nodes, left alone; `odd`, what was found
    instead of ours and means nothing (deleted, unreadable), put right; `old`, of before we showed
    this node here, ours from now on."""

    writes: list[Write] = []
    wishes: list[StateRequest] = []
    foreign: list[str] = []
    odd: list[str] = []
    old: list[str] = []


class PdEntries:
    """Remembers which change was answered: each is, once, whatever becomes of the answer."""

    def __init__(self) -> None:
        self._answered: dict[str, int] = {}

    def plan(
        self, nodes: Sequence[NodeStatus], found: dict[str, Found], shadows: dict[str, Found]
    ) -> Plan:
        """What to write now, and what was wished there since we wrote, both by name. A Pump that
        joins is not shown: a TiDB would write to it. Nor is a node whose id would be a path: who
        reads the entries takes them for keys of a directory."""
        plan = Plan()
        for node in nodes:
            if node.kind in PLACES and node.state != JOINING and "/" not in node.nodeId:
                name = PLACES[node.kind] + node.nodeId
                self._compare(plan, name, node, found.get(name), shadows.get(name))
        return plan

    def _compare(
        self, plan: Plan, name: str, node: NodeStatus, there: Found | None, kept: Found | None
    ) -> None:
        ours = entry_of(node)
        said = _read(there.value, Entry) if there is not None else None
        was = _read(kept.value, Shadow) if kept is not None else None
        if not node.updateTS:
            # Not heard since this registry began, which keeps no addresses: PD has them.
            if was is None:
                return
            ours = _as_before(ours, said, was)
        if there is None:
            if kept is not None:
                plan.odd.append(name)
            plan.writes.append(Write(name, ours, 0))
            return
        foreign = said is not None and not _is_ours(said, ours, was)
        if foreign and said is not None and said.state != OFFLINE:
            plan.foreign.append(name)
            return
        changed = kept is None or kept.revision != there.revision
        if changed and self._answered.get(name) != there.revision:
            self._answered[name] = there.revision
            if said is None or said.state not in WISHES:
                plan.odd.append(name)
            elif foreign or was is None:
                plan.old.append(name)
            elif said.state not in (was.state, ours.state):
                plan.wishes.append(StateRequest(node.nodeId, WISHES[said.state], kind=node.kind))
        if changed or said != ours:
            plan.writes.append(Write(name, ours, there.revision))


def entry_of(node: NodeStatus) -> Entry:
    return Entry(
        node.nodeId,
        node.host or node.http,
        node.state,
        node.isAlive,
        maxCommitTS=node.maxCommitTS,
        updateTS=node.updateTS,
    )


def _as_before(ours: Entry, said: Entry | None, was: Shadow) -> Entry:
    """The state as it is now, and what we wrote of the rest."""
    if said is None:
        return replace(ours, host=was.host)
    known = {"maxCommitTS": said.maxCommitTS, "updateTS": said.updateTS}
    return replace(ours, host=was.host, **known)


def _is_ours(said: Entry, ours: Entry, was: Shadow | None) -> bool:
    """Or is it another node of that id, which keeps it until it is offline? Ours may have moved."""
    return said.host in (ours.host, was.host if was is not None else ours.host)


def _read(value: bytes, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(value, type=kind)
    except NOT_READABLE:
        return None
