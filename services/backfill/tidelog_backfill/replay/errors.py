"""What keeps logs from being planned."""

from __future__ import annotations

from tidelog.drainer_control import Ddl
from tidelog.errors import BadInput, Stopped
from tidelog_backfill.replay.outline import Limit
from tidelog_backfill.replay.pb_ddls import TextDdl

_PLACES = "file:PATH, http://HOST:PORT of a TiDB, or embedded"


class DdlNotDecided(Stopped):
    """A DDL of a kind that nobody decided about."""

    def __init__(self, ddl: Ddl) -> None:
        super().__init__(
            f"nobody decided what the DDL of kind {ddl.kind} at {ddl.commit_ts} does to a replay:"
            f" {ddl.query}",
            hint=f'say it in the job: rules.ddl-policy with {ddl.kind} = "skip", "rewrite" or'
            ' "forward"; or end the replay before it, by until-ts',
        )
        self.ddl = ddl


class DdlNotTold(Stopped):
    """What a DDL does can't be told by its text."""

    def __init__(self, ddl: TextDdl, why: str) -> None:
        super().__init__(
            f"{ddl.where}: what the DDL at {ddl.commit_ts} does can't be told ({why}):"
            f" {ddl.query[:300]}",
            hint=f"name the upstream's DDL history as ddl-history: {_PLACES}; or end the replay"
            " before it, by until-ts",
        )


def no_structure(db: str, table: str, first_ts: int) -> Stopped:
    return Stopped(
        f"nothing tells the structure of {db}.{table}, which has rows from {first_ts} on: neither a"
        " DDL before them nor the downstream has the table",
        hint=f"name the upstream's DDL history as ddl-history: {_PLACES}; or leave the table out:"
        " --tables",
    )


def out_of_reach(limit: Limit) -> Stopped:
    return Stopped(
        f"nobody can tell by these logs what was committed after {limit.upto}: {limit.why}",
        hint=f"end the replay at {limit.upto} by until-ts, or take logs and DDL history anew;"
        f" --on-corrupt skip goes on: {limit.beyond}",
    )


def no_history() -> BadInput:
    return BadInput(
        "Pumps' logs can't be read without the DDL history",
        hint=f"name it as ddl-history: {_PLACES}",
    )
