"""What keeps logs from being planned."""

from __future__ import annotations

from tidelog.drainer_control import Ddl
from tidelog.errors import Stopped


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
