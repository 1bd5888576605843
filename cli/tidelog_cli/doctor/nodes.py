"""The nodes as the registry knows them: who is missing, who complains, who is left behind. Pure,
but for the question."""

from __future__ import annotations

from collections.abc import Iterable

from tidelog import ask_registry
from tidelog.errors import Refused, Unavailable
from tidelog.messages import (
    APPLIER,
    DRAINER,
    DRAINER_CONSUMER,
    JOINING,
    OFFLINE,
    PUMP,
    Consumer,
    Nodes,
    NodeStatus,
)
from tidelog.node_form import node_forms
from tidelog.node_notes import is_writable, notes
from tidelog.ports import Bus
from tidelog.printable import printable
from tidelog.timestamps import TS_MAX, age_s
from tidelog_cli.doctor.finding import About, Finding

CHECK = "nodes"
ASK_S = 3.0
HELD_S = 3 * 86400
"""Readers that stand still that long make the Pumps keep more than by default (7 days), soon."""
NEUTRAL = frozenset(("standby", "adopted"))
"""What a node tells of itself that is no complaint."""


async def registry_nodes(bus: Bus, cluster: str) -> Nodes:
    """Raises Unavailable, Refused."""
    return await ask_registry.nodes(bus, cluster, timeout_s=ASK_S)


def unanswered(error: Unavailable | Refused, cluster: str) -> Finding:
    """The hint of one that refuses is its own."""
    hint = f"start `python -m tidelog_registry --cluster {cluster}`, or name another by --cluster"
    own = error.hint if isinstance(error, Refused) else ""
    return About(CHECK, "registry").wrong(error.message, own or hint)


def judge(found: Nodes, feed: str) -> list[Finding]:
    about = About(CHECK, "registry")
    findings = [about.ok(f"it answers, and knows {len(found.nodes)} nodes")]
    if not found.settled:
        says = "it lost its state and listens: no Pump goes online for a lease"
        findings = [about.warning(says, "it mends itself within seconds: look again")]
    findings += writers(found)
    findings += [one for node in found.nodes for one in of_node(node, found)]
    return findings + readers(found, feed)


def writers(found: Nodes) -> list[Finding]:
    about = About(CHECK, "pumps")
    forms = [form for form in node_forms(found, PUMP) if form["state"] != OFFLINE]
    taking = [form["nodeId"] for form in forms if is_writable(form)]
    if taking:
        return [about.ok(f"{len(taking)} of {len(forms)} Pumps take writes")]
    hint = "start one, or `tidelog resume NODE`; `tidelog pumps` shows their states"
    return [about.wrong("no Pump takes writes: writers fail, or go on without binlogs", hint)]


def of_node(node: NodeStatus, found: Nodes) -> list[Finding]:
    """Its state, and each of its complaints."""
    about = About(CHECK, printable(node.nodeId))
    findings = []
    for note in notes(node_forms(Nodes([node]), node.kind)):
        if note == "no Pump takes writes":
            continue  # of all Pumps, told once
        says, _, hint = note.partition(": ")
        is_gone = not node.isAlive and node.state != JOINING
        findings.append(about.wrong(says, hint) if is_gone else about.warning(says, hint))
    for what, complaint in sorted(node.detail.items()):
        if what in NEUTRAL or node.state == OFFLINE:
            continue
        says, hint = told(node, what, complaint)
        findings.append(
            about.wrong(says, hint) if what in WRONG_KEYS else about.warning(says, hint)
        )
    return findings


WRONG_KEYS = frozenset(("error", "missing", "damaged"))
_COMMANDS = {
    "oldest_open": "wait, its upstream is asked; after minutes, `tidelog resolve START_TS`",
    "missing": "`tidelog resolve START_TS --accept`, once the readers have what they lack",
    "unpaired": "`tidelog resolve START_TS --accept`, if its rows are known to be elsewhere",
    "retention": "let who is behind catch up, or `tidelog feed unregister FEED NAME`",
    "skipped": "`tidelog verify` shows what is missing downstream",
    "sync_log": "set `storage.sync-log = true` and start it again",
}


def told(node: NodeStatus, what: str, complaint: str) -> tuple[str, str]:
    """A complaint, and what to do about it; an error has its own hint behind it, in brackets."""
    says, has_hint, own = complaint.rpartition(" (")
    if what == "error" and has_hint and own.endswith(")"):
        return says, own[:-1]
    return complaint, _COMMANDS.get(what, f"`tidelog {node.kind}s` shows it until it is mended")


def readers(found: Nodes, feed: str) -> list[Finding]:
    """Does somebody publish the feed, does somebody apply it?"""
    findings = []
    for kind, duty in ((DRAINER, "publishes"), (APPLIER, "applies")):
        here = [n for n in found.nodes if n.kind == kind and n.feed == feed and n.state != OFFLINE]
        about = About(CHECK, f"{kind}s")
        if any(node.isAlive for node in here):
            findings.append(about.ok(f"feed {feed} has {len(here)}"))
        elif kind == DRAINER:
            hint = f"start `python -m tidelog_drainer --feed {feed}`, or name another by --feed"
            findings.append(about.wrong(f"nobody {duty} feed {feed}", hint))
        elif not here:
            says = f"nobody {duty} feed {feed}: only subscribers read it"
            findings.append(about.ok(says))
    return findings


def retention(found: Nodes, now_ms: int) -> list[Finding]:
    """Who holds back what the Pumps keep."""
    about = About("retention")
    if not found.safe_point:
        return [about.ok("who reads is not known yet, and nothing is purged meanwhile")]
    if found.safe_point >= TS_MAX:
        return [about.ok("nobody is registered: the Pumps keep data by its age alone")]
    return [_held(about, found, now_ms)]


def let_go(reader: Consumer, nodes: Iterable[NodeStatus]) -> str:
    """The command that ends the waiting for who is gone for good: nodes go otherwise."""
    if reader.name == DRAINER_CONSUMER:
        return "`tidelog offline NODE` each of its Drainers"
    if any((node.nodeId, node.feed) == (reader.name, reader.feed) for node in nodes):
        return f"`tidelog offline {reader.name}`"
    return f"`tidelog feed unregister {reader.feed} {reader.name}`"


def _held(about: About, found: Nodes, now_ms: int) -> Finding:
    lowest = min(found.consumers, key=lambda reader: reader.commit_ts, default=None)
    behind_s = age_s(found.safe_point, now_ms)
    who = f"{lowest.name} of feed {lowest.feed}" if lowest else "a feed that a Drainer pulled"
    says = f"the Pumps keep everything since {behind_s:.0f} s ago, for {who}"
    if behind_s < HELD_S:
        return about.ok(says)
    hint = "see that it runs; if it is gone for good: "
    if lowest is None:
        return about.warning(says, f"{hint}`tidelog feed forget FEED`")
    return about.warning(says, f"{hint}{let_go(lowest, found.nodes)}")
