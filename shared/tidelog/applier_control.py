"""Bodies of `applier.<node>.control` (JSON): an operator's word on a DDL it stands at."""

from __future__ import annotations

from typing import Any

import msgspec

from tidelog.timestamps import Ts

LET_GO = "let-go"
READ_AHEAD = "read-ahead"
SHARED = (
    "feed",
    "start_ts",
    "cluster_id",
    "checkpoint_table",
    "sync_mode",
    "loopback_control",
    "channel_id",
    "mark_schema",
    "ddl_timeout_s",
)
"""Settings that an Applier and the job in its place call the same."""


class ApplierRequest(msgspec.Struct, frozen=True):
    """`ddl-done` and `ddl-again`, with the commit_ts of the DDL. `let-go`: a paused one closes
    its downstream, so that somebody else may write it; resumed, it begins from what it finds.
    Meanwhile it reads the stream into its relay log: `read-ahead` asks how far."""

    verb: str
    ts: Ts = 0


class DecidedStep(msgspec.Struct, frozen=True):
    """Answer: the word is in the downstream's checkpoint (of `let-go`: the downstream is
    closed, and `commit_ts` is where it stood; of `read-ahead`: up to there its relay log holds
    everything). `step` counts the DDL's statements there
    from 0: the word is about that one."""

    feed: str
    node: str
    commit_ts: int
    step: int
    decision: str


class LetGo(DecidedStep, frozen=True):
    """Answer to `let-go`. `settings`: SHARED as they hold for this Applier, whoever said them, and
    its `downstream` without a password."""

    settings: dict[str, Any] = {}
