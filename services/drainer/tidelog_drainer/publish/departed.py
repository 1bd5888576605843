"""Pumps that left with what a feed has not read: it must not pass that by without a word.

A Pump leaves in order once every registered reader has what it holds (I4). Who was registered by
nobody then was not waited for: a feed that is created later, or whose Drainers an operator let go.
"""

from __future__ import annotations

from tidelog import messages, subjects
from tidelog.errors import Purged, StreamMissing, Unavailable, UnparsablePayload
from tidelog.kv import Bucket
from tidelog.membership import Member
from tidelog.messages import DRAINER_CONSUMER, Nodes
from tidelog.ports import Ports
from tidelog_drainer.config import DrainerConfig
from tidelog_drainer.publish.settled import settled_nodes


async def refuse_departed(config: DrainerConfig, ports: Ports, after_ts: int) -> None:
    """May the feed go on behind `after_ts` with the Pumps that are left? A stream that lost its end
    may: its readers have what was in it. Waits for the registry only where a Pump left above.
    Raises Purged, Unavailable."""
    if config.accept_loss or config.is_replay:
        return
    left = await _left_above(config, ports, after_ts)
    if not left:
        return
    reached = _reached(await settled_nodes(config, ports), config.feed)
    missed = {node: gone_ts for node, gone_ts in left.items() if gone_ts > reached}
    if missed:
        newest = max(missed.values())
        raise Purged(
            f"{', '.join(sorted(missed))} went offline with transactions up to {newest}, and feed"
            f" {config.feed} has read up to {after_ts}: what lies between is nowhere any more",
            hint=f"create a feed of another name that begins at {newest}, and copy the tables as of"
            " then; or go on with what the other Pumps hold: --accept-loss",
        )


async def _left_above(config: DrainerConfig, ports: Ports, after_ts: int) -> dict[str, int]:
    """By Pump, what everybody who was registered had read of it."""
    bucket = Bucket(ports.bus, subjects.members_bucket(config.cluster))
    try:
        entries, _ = await bucket.entries()
        members = [messages.decode(entry.value, Member) for entry in entries.values()]
    except StreamMissing:  # the registry makes it anew, and the merge waits for that
        return {}
    except UnparsablePayload as error:  # so does the merge
        raise Unavailable(f"an entry of the members can't be read: {error.message}") from error
    return {one.node: one.gone_ts for one in members if one.gone_ts > after_ts}


def _reached(nodes: Nodes, feed: str) -> int:
    """Whoever is registered was waited for, by each Pump that left since."""
    positions = {one.name: one.commit_ts for one in nodes.consumers if one.feed == feed}
    published = positions.pop(DRAINER_CONSUMER, 0)
    return min(positions.values(), default=published)
