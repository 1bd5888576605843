"""What the services say of themselves over HTTP: versions, clocks, disks, open Prewrites."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from email.utils import parsedate_to_datetime
from math import inf
from typing import Any, NamedTuple

import msgspec
from aiohttp import ClientError, ClientSession, ClientTimeout

from tidelog.messages import OFFLINE, Nodes
from tidelog.unreadable import NOT_READABLE
from tidelog_cli.doctor.clocks import skew
from tidelog_cli.doctor.finding import About, Finding, named

CHECK = "services"
ASK_S = 3.0
DATE_MS = 500
"""A date of HTTP is cut to seconds: so much on average."""
YOUNG_S = 30.0
"""So long after its start a node may wait for others that begin, too: a lease, the oracle, some
heartbeats. About 10 s where a machine has time."""
SPACE_LOW = 2.0
"""Times what is kept free: below it there is little time left."""
OPEN_S = 600.0
"""`txn-timeout-s` by default: from then on the upstream is made to decide."""

SAID = frozenset(("version", "ready", "why", "actors", "config"))
"""What is used of a service's /status."""


class Told(NamedTuple):
    """`status`: its /status, None = it did not answer; `date_ms`: its clock, 0 = not told."""

    name: str
    url: str
    status: Mapping[str, Any] | None = None
    date_ms: int = 0

    def actor(self, name: str) -> Mapping[str, Any]:
        actors = self.status["actors"] if self.status else {}
        found: Mapping[str, Any] = actors.get(name, {})
        return found


def addresses(found: Nodes, known: Mapping[str, str]) -> dict[str, str]:
    """Where each service serves HTTP: as `up` knows, and as the nodes told the registry."""
    told = {n.nodeId: f"http://{n.http}" for n in found.nodes if n.http and n.state != OFFLINE}
    by_url = {url: name for name, url in known.items()}
    return {by_url.get(url, name): url for name, url in told.items()} | dict(known)


async def ask_all(at: Mapping[str, str]) -> list[Told]:
    """Their statuses; all at once."""
    async with ClientSession(timeout=ClientTimeout(ASK_S)) as session:
        asked = (_ask(session, name, url) for name, url in sorted(at.items()))
        return list(await asyncio.gather(*asked))


async def _ask(session: ClientSession, name: str, url: str) -> Told:
    try:
        async with session.get(f"{url}/status") as answer:
            status = msgspec.json.decode(await answer.read(), type=dict[str, Any])
            date = answer.headers.get("Date", "")
    except (ClientError, OSError, TimeoutError, *NOT_READABLE):
        return Told(name, url)
    if not status.keys() >= SAID:  # what answers there is none of our services
        return Told(name, url)
    return Told(name, url, status, _ms(date))


def _ms(date: str) -> int:
    try:
        return int(parsedate_to_datetime(date).timestamp() * 1000) + DATE_MS
    except ValueError:
        return 0


def age_s(one: Told) -> float:
    """How long ago its process began, by its own clock; without end if it does not say so."""
    began = (one.status or {}).get("started")
    try:
        began_ms = datetime.fromisoformat(str(began)).timestamp() * 1000
    except (ValueError, OverflowError, OSError):
        return inf
    return max(0.0, one.date_ms - began_ms) / 1000 if one.date_ms else inf


def ages_s(told: Sequence[Told]) -> dict[str, float]:
    """By where they serve HTTP, as the nodes tell it."""
    return {one.url.removeprefix("http://"): age_s(one) for one in told}


def judge(told: Sequence[Told], our_ms: int) -> list[Finding]:
    findings = versions(told)
    for one in told:
        findings += reached(one)
        if one.date_ms:
            findings.append(skew(one.name, one.date_ms, our_ms))
        findings += space(one) + open_prewrites(one) + purges(one)
    return findings


def versions(told: Sequence[Told]) -> list[Finding]:
    """All the same? A change of version goes node by node, and should come to its end."""
    here = {one.name: str(one.status["version"]) for one in told if one.status}
    if not here:
        return []
    about = About(CHECK, "versions")
    most, _ = Counter(here.values()).most_common(1)[0]
    others = [f"{name} {version}" for name, version in sorted(here.items()) if version != most]
    if others:
        return [about.warning(f"most run {most}, but {named(others)}", "bring all to one version")]
    return [about.ok(f"all run {most}")]


def reached(one: Told) -> list[Finding]:
    about = About(CHECK, one.name)
    if one.status is None:
        hint = "look from within its network (`docker compose exec cli tidelog doctor`), or there"
        return [about.unknown(f"its HTTP at {one.url} is not reached from here", hint)]
    if not one.status["ready"]:
        says = f"it is not ready: {one.status['why']}"
        if (age := age_s(one)) < YOUNG_S:
            return [about.wrong(f"{says}; it began {age:.0f} s ago", "look again in some seconds")]
        return [about.wrong(says, "see the end of its log")]
    return [about.ok("it is ready")]


def space(one: Told) -> list[Finding]:
    """Of a Pump's disk, against `stop-write-at-available-space`."""
    writer = one.actor("writer")
    if "free" not in writer:
        return []
    about = About("disk", one.name)
    free, kept = int(writer["free"]), int(writer["kept_free"])
    says = f"{free >> 20} MiB are free; Prewrites are refused below {kept >> 20} MiB"
    hint = "give it more disk; what holds its data back is told under `retention`"
    if free < kept:
        return [about.wrong(says, hint)]
    return [about.warning(says, hint) if free < SPACE_LOW * kept else about.ok(says)]


def open_prewrites(one: Told) -> list[Finding]:
    sorter = one.actor("sorter")
    if "open" not in sorter:
        return []
    about, oldest = About("prewrites", one.name), sorter["oldest_open"]
    if not oldest or oldest["age_s"] <= OPEN_S:
        return [about.ok(f"{sorter['open']} are open, none for long")]
    says = f"{oldest['start_ts']} is open since {oldest['age_s']:.0f} s; every feed waits there"
    return [about.wrong(says, f"`tidelog resolve {oldest['start_ts']}`")]


def purges(one: Told) -> list[Finding]:
    """Readers that are behind nearly as far as a Pump's gc reaches."""
    behind = one.actor("gc").get("behind") or {}
    about = About("retention", one.name)
    hint = (
        "let them catch up; who is gone for good: a node by `tidelog offline NAME`, else "
        "`tidelog feed unregister FEED NAME`"
    )
    return [about.warning(f"it would purge, but for {who}", hint) for who in sorted(behind)]
