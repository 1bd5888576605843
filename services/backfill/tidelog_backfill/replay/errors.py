"""What keeps logs from being planned."""

from __future__ import annotations

from tidelog.drainer_control import Ddl
from tidelog.errors import BadInput, Stopped


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


def no_history() -> BadInput:
    return BadInput(
        "Pumps' logs can't be read without the DDL history",
        hint="name it as ddl-history: file:PATH, http://HOST:PORT of a TiDB, or embedded",
    )
