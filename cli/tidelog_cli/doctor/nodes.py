"""The nodes as the registry knows them: who is missing, who complains, who is left behind. Pure,
but for the question."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf

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
from tidelog.positions import applied_ts, of_kind, published_ts, resolved_ts
from tidelog.printable import printable
from tidelog.timestamps import TS_MAX, age_s
from tidelog_cli.doctor.finding import About, Finding
from tidelog_cli.doctor.services import YOUNG_S

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


def judge(found: Nodes, feed: str, ages_s: Mapping[str, float]) -> list[Finding]:
    """`ages_s`: how long ago who began, by where it serves HTTP; others are of no known age."""
    about = About(CHECK, "registry")
    findings = [about.ok(f"it answers, and knows {len(found.nodes)} nodes")]
    if not found.settled:
        says = "it lost its state and listens: no Pump goes online for a lease"
        findings = [about.warning(says, "it mends itself within seconds: look again")]
    findings += writers(found)
    findings += [one for node in found.nodes for one in of_node(node, ages_s.get(node.http, inf))]
    return findings + readers(found, feed) + positions(found, feed, ages_s)


def writers(found: Nodes) -> list[Finding]:
    about = About(CHECK, "pumps")
    forms = [form for form in node_forms(found, PUMP) if form["state"] != OFFLINE]
    taking = [form["nodeId"] for form in forms if is_writable(form)]
    if taking:
        return [about.ok(f"{len(taking)} of {len(forms)} Pumps take writes")]
    hint = "start one, or `tidelog resume NODE`; `tidelog pumps` shows their states"
    return [about.wrong("no Pump takes writes: writers fail, or go on without binlogs", hint)]


def of_node(node: NodeStatus, age_s: float) -> list[Finding]:
    """Its state, and each of its complaints; what it waits for when it has just begun is none."""
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
        if what in WAITS and age_s < YOUNG_S:
            findings.append(about.ok(f"it began {age_s:.0f} s ago: {complaint}"))
            continue
        says, hint = told(node, what, complaint)
        findings.append(
            about.wrong(says, hint) if what in WRONG_KEYS else about.warning(says, hint)
        )
    return findings


WAITS = frozenset(("oracle", "waiting"))
"""What passes by itself while a topology begins."""
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


def positions(found: Nodes, feed: str, ages_s: Mapping[str, float]) -> list[Finding]:
    """What `tidelog status` calls not known yet, while those who will tell it have just begun."""
    tellers = {
        "resolved": (resolved_ts(found), of_kind(found, PUMP)),
        "published": (published_ts(found, feed), of_kind(found, DRAINER)),
        "applied": (applied_ts(found, feed), of_kind(found, APPLIER)),
    }
    waits: dict[str, float] = {}
    for name, (position, nodes) in tellers.items():
        age_s = min((ages_s.get(n.http, inf) for n in nodes if n.feed in ("", feed)), default=inf)
        if not position and age_s < YOUNG_S:
            waits[name] = age_s
    if not waits:
        return []
    began = f"{max(waits.values()):.0f} s ago the nodes began that tell it"
    return [About(CHECK, "positions").ok(f"not known yet: {', '.join(waits)}; {began}")]


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
    """The safe point is the lowest of all consumers' and of what the Pumps were last asked for
    under feeds that no consumer speaks for: replays, and feeds whose Drainers are gone."""
    lowest = min(found.consumers, key=lambda reader: reader.commit_ts, default=None)
    spoken_for = {reader.feed for reader in found.consumers}
    pulled = {ts: feed for feed, ts in found.feeds.items() if feed not in spoken_for}
    behind_s = age_s(found.safe_point, now_ms)
    feed = pulled[min(pulled)] if pulled else "that a Drainer pulled"
    if lowest is not None and (not pulled or lowest.commit_ts <= min(pulled)):
        who, ending = f"{lowest.name} of feed {lowest.feed}", let_go(lowest, found.nodes)
    elif "=" in feed:
        name, _, reader = feed.partition("=")
        who, ending = f"the replay of feed {name} for {reader}", "it ends by itself within a minute"
    else:
        who, ending = f"feed {feed}", f"`tidelog feed forget {feed if pulled else 'FEED'}`"
    says = f"the Pumps keep everything since {behind_s:.0f} s ago, for {who}"
    if behind_s < HELD_S:
        return about.ok(says)
    return about.warning(says, f"see that it runs; if it is gone for good: {ending}")
