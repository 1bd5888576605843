"""A feed's record and its stream: is it there, how long does it keep changes, who is behind?"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from tidelog import subjects
from tidelog.feeds import Feeds
from tidelog.messages import DRAINER_CONSUMER, Nodes
from tidelog.ports import Bus
from tidelog.timestamps import physical_ms
from tidelog_cli.doctor.finding import About, Finding
from tidelog_cli.doctor.nodes import let_go
from tidelog_cli.doctor.server_edge import json_of

CHECK = "feed"
ASK_S = 3.0
FULL = 0.9
"""Of max_bytes: from there on the oldest changes go, however young they are."""


class Stream(msgspec.Struct, frozen=True):
    """`first_ms`: when its oldest message was stored, 0 = it has discarded none, or is empty;
    `max_age_s`, `max_bytes`: 0 = no limit."""

    first_ms: int = 0
    bytes: int = 0
    max_age_s: float = 0
    max_bytes: int = 0
    replicas: int = 1
    storage: str = "file"


async def check_feed(bus: Bus, cluster: str, feed: str, nodes: Nodes) -> list[Finding]:
    """Raises Unavailable."""
    record = await Feeds(bus, cluster).get(feed)
    about = About(CHECK, feed)
    if record is None:
        hint = f"`tidelog feed create {feed}`"
        return [about.wrong("the feed was not created: its Drainer waits for that", hint)]
    name = subjects.changes_stream(feed)
    answer = await bus.request(f"$JS.API.STREAM.INFO.{name}", b"", timeout_s=ASK_S)
    told = json_of(answer.data)
    if "error" in told:
        if not record.begun:
            return [about.ok("the feed was created, and nothing is published yet")]
        hint = "its Drainer fills it again from the Pumps; `tidelog status` shows how far it is"
        return [about.warning(f"there is no stream {name}, though the feed had begun", hint)]
    return judge(feed, stream_of(told), nodes)


def stream_of(told: dict[str, Any]) -> Stream:
    config, state = told["config"], told["state"]
    has_discarded = state.get("messages", 0) and state.get("first_seq", 1) > 1
    return Stream(
        int(datetime.fromisoformat(state["first_ts"]).timestamp() * 1000) if has_discarded else 0,
        state.get("bytes", 0),
        config.get("max_age", 0) / 1e9,
        max(0, config.get("max_bytes", 0)),
        config.get("num_replicas", 1),
        config.get("storage", "file"),
    )


def judge(feed: str, stream: Stream, nodes: Nodes) -> list[Finding]:
    """Its limits against its readers' positions."""
    about = About(CHECK, feed)
    found = []
    if stream.storage != "file":
        hint = f"`nats stream rm {subjects.changes_stream(feed)}`: the Drainer makes it anew"
        found.append(about.wrong("its stream is in memory, and gone with the server", hint))
    if stream.max_bytes and stream.bytes > FULL * stream.max_bytes:
        says = f"its stream has {stream.bytes >> 20} of {stream.max_bytes >> 20} MiB: the oldest"
        found.append(
            about.warning(
                f"{says} changes go, however young they are",
                "raise its max_bytes, and `changes-max-bytes` of its Drainer (docs/operating.md)",
            )
        )
    for reader in nodes.consumers:
        if reader.feed != feed or reader.name == DRAINER_CONSUMER or not stream.first_ms:
            continue
        if reader.commit_ts and physical_ms(reader.commit_ts) < stream.first_ms:
            found.append(
                about.warning(
                    f"{reader.name} stands before what the stream still has, or close to it",
                    "a reader that finds a gap asks for a refill by itself; see that it runs, or "
                    f"{let_go(reader, nodes.nodes)} if it is gone for good",
                )
            )
    copies = "one copy: not highly available" if stream.replicas == 1 else "several copies"
    kept = f"{stream.max_age_s / 86400:.0f} days" if stream.max_age_s else "for ever"
    room = f"{stream.max_bytes >> 20} MiB" if stream.max_bytes else "what the store has"
    return [*found, about.ok(f"its stream keeps changes {kept}, in {room}, {copies}")]
