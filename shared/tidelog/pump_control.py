"""Bodies of `pump.<node>.control` (JSON), asked by operators and by the other Pumps."""

from __future__ import annotations

import msgspec

from tidelog.timestamps import Ts


class ControlRequest(msgspec.Struct, frozen=True):
    """`ts` is a start_ts. `status`; `inspect`, `accept` with ts; `who-has` with ts and commit_ts;
    `resolve` with ts and commit_ts (0 = it is rolled back); `forget` with feed."""

    verb: str
    ts: Ts = 0
    commit_ts: Ts = 0
    feed: str = ""


class PumpStatus(msgspec.Struct, frozen=True):
    """Answer to `status`."""

    node: str
    epoch: int
    resolved_ts: int
    high_ts: int
    max_commit_ts: int


class Inspected(msgspec.Struct, frozen=True):
    """Answer to `inspect`, `resolve`, `accept`: open, committed, rolled_back, unpaired,
    lost (gc-hard-cap took it, and no reader can get it), unknown.
    `late`: "unverified" or "missing" if its Commit came at or below resolved_ts, or without its
    Prewrite."""

    state: str
    commit_ts: int = 0
    segment: int = 0
    offset: int = 0
    length: int = 0
    late: str = ""


class Forgotten(msgspec.Struct, frozen=True):
    """Answer to `forget`: up to where the feed had read here; null = it is not known here."""

    after_ts: int | None


class WhoHas(msgspec.Struct, frozen=True):
    """Answer to `who-has`: have, pending, no or purged."""

    answer: str
