"""`tidelog ddl`: what a feed did not publish as it came, and orders to one that stands at a DDL."""

from __future__ import annotations

import contextlib

import msgspec
from rich.table import Table
from rich.text import Text

from tidelog import messages, subjects
from tidelog.applier_control import ApplierRequest, DecidedStep
from tidelog.drainer_control import (
    NOTED_KEY,
    ORDERS_KEY,
    DdlOrders,
    DrainerRequest,
    FeedDdls,
    NotedDdls,
)
from tidelog.errors import BadInput, StreamMissing, TidelogError, Unavailable
from tidelog.kv import Bucket
from tidelog.ports import Bus
from tidelog.positions import of_kind
from tidelog_cli.connect import TIMEOUT_S, nodes_soon


async def ask(bus: Bus, cluster: str, feed: str, request: DrainerRequest) -> FeedDdls:
    """The Drainer that publishes the feed answers. Raises what it says, or Unavailable."""
    known = of_kind(await nodes_soon(bus, cluster), messages.DRAINER)
    drainers = [n for n in known if n.feed == feed and n.state != messages.OFFLINE]
    if not drainers:
        feeds = ", ".join(sorted({n.feed for n in known})) or "none"
        raise BadInput(f"no Drainer publishes feed {feed!r}", hint=f"feeds with one are: {feeds}")
    error: Unavailable | None = None
    for drainer in sorted(drainers, key=lambda n: not n.isAlive):
        subject = subjects.drainer(cluster, drainer.nodeId, "control")
        try:
            answer = await bus.request(subject, messages.encode(request), timeout_s=TIMEOUT_S)
            return messages.decode_reply(answer.data, FeedDdls)
        except (
            Unavailable
        ) as unavailable:  # a standby does not publish, one that died doesn't either
            error = error or unavailable
    raise Unavailable(
        f"no Drainer of feed {feed!r} answers",
        hint="`tidelog drainers` shows them; an order may have been kept: look with `tidelog ddl`",
    ) from error


async def decide(bus: Bus, cluster: str, feed: str, request: ApplierRequest) -> list[DecidedStep]:
    """The Appliers of the feed that stand at that DDL. Raises what they say if none does, or
    Unavailable."""
    known = of_kind(await nodes_soon(bus, cluster), messages.APPLIER)
    appliers = [n for n in known if n.feed == feed and n.state != messages.OFFLINE]
    if not appliers:
        feeds = ", ".join(sorted({n.feed for n in known})) or "none"
        raise BadInput(f"no Applier reads feed {feed!r}", hint=f"feeds with one are: {feeds}")
    found: list[DecidedStep] = []
    errors: list[TidelogError] = []
    for applier in appliers:
        subject = subjects.applier(cluster, applier.nodeId, "control")
        try:
            answer = await bus.request(subject, messages.encode(request), timeout_s=TIMEOUT_S)
            found.append(messages.decode_reply(answer.data, DecidedStep))
        except TidelogError as error:
            errors.append(error)
    if not found:
        said = [one for one in errors if not isinstance(one, Unavailable)]
        if said:
            raise said[0]
        raise Unavailable(
            f"no Applier of feed {feed!r} answers",
            hint="`tidelog appliers` shows them; the word may have been recorded: look there",
        ) from errors[0]
    return found


async def kept(bus: Bus, feed: str) -> FeedDdls:
    """What the feed's last Drainer kept; where it stands is then not known. Raises Unavailable."""
    bucket = Bucket(bus, subjects.ddl_bucket(feed))
    orders, noted = DdlOrders(), NotedDdls()
    with contextlib.suppress(StreamMissing):
        if (entry := await bucket.get(ORDERS_KEY)) is not None:
            orders = msgspec.json.decode(entry.value, type=DdlOrders)
        if (entry := await bucket.get(NOTED_KEY)) is not None:
            noted = msgspec.json.decode(entry.value, type=NotedDdls)
    return FeedDdls(feed, None, orders.policy, orders.decided, noted.ddls, noted.older)


def policy_order(policy: str) -> DrainerRequest:
    """KIND=ACTION; the action may be empty: as configured. Raises BadInput."""
    kind, equals, action = policy.partition("=")
    if not equals:
        raise BadInput(f"not a policy: {policy!r}", hint="KIND=skip, or KIND= to undo one")
    return DrainerRequest("ddl-policy", kind=kind.strip(), action=action.strip())


def table(found: FeedDdls) -> Table:
    drawn = Table(box=None, pad_edge=False)
    for column in ("commit_ts", "kind", "why", "db", "query", "removed"):
        drawn.add_column(column, overflow="fold", no_wrap=column == "commit_ts")
    for one in found.ddls:
        what = (one.kind, one.why, one.db, one.query, "; ".join(one.removed))
        drawn.add_row(str(one.commit_ts), *map(Text, what))
    return drawn


def notes(found: FeedDdls) -> list[str]:
    """What stands below the table."""
    lines = [f"{count} older: {why}" for why, count in sorted(found.older.items())]
    lines += [f"policy: {kind}={action}" for kind, action in sorted(found.policy.items())]
    if found.stands_at is not None:
        at = found.stands_at
        lines.append(f"feed {found.feed} stands at {at.commit_ts}, {at.kind}: {at.query}")
        lines.append(
            f"  try: `tidelog ddl pass {found.feed} {at.commit_ts}` or"
            f" `tidelog ddl skip {found.feed} {at.commit_ts}`; for all of its kind"
            f" `tidelog ddl policy {found.feed} {at.kind}=skip`"
        )
    return lines
