"""Bodies of `applier.<node>.control` (JSON): an operator's word on a DDL it stands at."""

from __future__ import annotations

import msgspec

from tidelog.pump_control import Ts

BEGIN_ANEW = "begin-anew"


class ApplierRequest(msgspec.Struct, frozen=True):
    """`ddl-done` and `ddl-again`, with the commit_ts of the DDL. `begin-anew`: of a paused one,
    when somebody else has moved its downstream's checkpoint meanwhile."""

    verb: str
    ts: Ts = 0


class DecidedStep(msgspec.Struct, frozen=True):
    """Answer: the word is in the downstream's checkpoint (of `begin-anew`: it will be obeyed, and
    `commit_ts` is where it stood). `step` counts the DDL's statements there
    from 0: the word is about that one."""

    feed: str
    node: str
    commit_ts: int
    step: int
    decision: str
