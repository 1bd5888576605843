"""Source 0 of the merge: the membership bucket (I3, I4).

Before everything up to x is emitted, the bucket's last sequence is read from the stream's leader.
`MembershipView` is the pure judgement of that answer; `read_pumps` reads the entries,
`announced_pumps` asks the registry where the bucket may not be whole.
"""

from __future__ import annotations

from datetime import datetime
from enum import Enum

from tidelog import messages
from tidelog.errors import Unavailable
from tidelog.kv import Bucket
from tidelog.membership import Member
from tidelog.messages import OFFLINE, PUMP, Empty, Nodes
from tidelog.ports import Bus, StreamState
from tidelog.subjects import registry, unescape

ASK_S = 2.0


class Verdict(Enum):
    """What may be done now."""

    SAME = "same"
    """No Pump was added since: emit."""
    CHANGED = "changed"
    """Read the entries and add the Pumps first."""
    UNTRUSTED = "untrusted"
    """The bucket is missing, recreated or rolled back: emit nothing for one lease time."""


class MembershipView:
    """Remembers the newest bucket seen. Times are monotonic seconds, `wall_ms` Unix ms."""

    def __init__(self, lease_s: float) -> None:
        self._lease_s = lease_s
        self._created = ""
        self._seen = 0
        self._read = False
        self._until: float | None = None
        self.reason = ""
        self.doubted = False
        """The bucket is met first, or was not trusted since its entries were last read:
        the registry must say that it has heard from everybody before they are taken for all there
        are."""

    @property
    def trusted(self) -> bool:
        return self._until is None and self._read

    def judge(self, state: StreamState | None, now: float, wall_ms: int) -> Verdict:
        """Judge what the leader said."""
        if state is None:
            return self._distrust("the membership bucket is missing", now, "")
        if state.created != self._created:
            first = not self._created and self._until is None
            self._created, self._seen, self._read = state.created, state.last_seq, False
            # Even one that is old enough may have been filled by half ever since (seed 795).
            self.doubted = True
            left = self._left(state.created, wall_ms) if first else self._lease_s
            if left > 0:
                self._until = now + left
                self.reason = "the membership bucket is new"
        elif state.last_seq < self._seen:
            self._seen, self._read = state.last_seq, False
            return self._distrust("the membership bucket was rolled back", now, self._created)
        if self._until is not None:
            self.doubted = True
            if now < self._until:
                return Verdict.UNTRUSTED
            self._until, self._read, self.reason = None, False, ""
        if self._read and state.last_seq == self._seen:
            return Verdict.SAME
        return Verdict.CHANGED

    def entries_read(self, last_seq: int) -> None:
        """The Pumps of all entries up to `last_seq` are sources now."""
        self._seen, self._read, self.doubted = max(self._seen, last_seq), True, False

    def _distrust(self, reason: str, now: float, created: str) -> Verdict:
        self._created = created
        self._until = now + self._lease_s
        self._read = False
        self.reason = reason
        return Verdict.UNTRUSTED

    def _left(self, created: str, wall_ms: int) -> float:
        """Seconds until a bucket met for the first time is a lease old; nodes have then had the
        time to announce themselves to a registry that had lost it."""
        try:
            born_ms = datetime.fromisoformat(created).timestamp() * 1000
        except ValueError:
            return self._lease_s
        age_s = (wall_ms - born_ms) / 1000
        return min(self._lease_s, max(0.0, self._lease_s - age_s))


async def read_pumps(bucket: Bucket) -> tuple[dict[str, int | None], int]:
    """Node id -> None of a source, its last commit_ts of one that is tombstoned; and the sequence
    read up to.

    Raises StreamMissing, UnparsablePayload.
    """
    entries, last_seq = await bucket.entries()
    pumps: dict[str, int | None] = {}
    for key in sorted(entries):
        member = messages.decode(entries[key].value, Member)
        gone = member.state == OFFLINE
        pumps[member.node or unescape(key)] = member.high_ts if gone else None
    return pumps, last_seq


async def announced_pumps(bus: Bus, cluster: str) -> dict[str, int | None]:
    """Pumps the registry has heard from, as `read_pumps`, once it has heard from everybody. Raises
    Unavailable: until then a bucket that was lost is not believed, however long ago it was made."""
    answer = await bus.request(
        registry(cluster, "nodes"), messages.encode(Empty()), timeout_s=ASK_S
    )
    nodes = messages.decode_reply(answer.data, Nodes)
    if not nodes.settled:
        raise Unavailable("the registry still listens for nodes that announce themselves")
    return {
        node.nodeId: node.maxCommitTS if node.state == OFFLINE else None
        for node in nodes.nodes
        if node.kind == PUMP
    }
