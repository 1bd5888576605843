"""What keeps a transaction from becoming changes."""

from __future__ import annotations

from tidelog.drainer_control import Ddl
from tidelog.errors import Stopped


class Undecodable(Stopped):
    """A transaction that can't be turned into changes: the feed stops at it."""

    default_hint = "a wrong or incomplete ddl-history is likely: mend it, start the Drainer again"

    def __init__(self, commit_ts: int, reason: str, *, hint: str = "") -> None:
        super().__init__(f"transaction {commit_ts}: {reason}", hint=hint)
        self.commit_ts = commit_ts


class UndecidedDdl(Undecodable):
    """A DDL of a kind that nobody decided about: the feed waits at it for an operator's order."""

    def __init__(self, feed: str, ddl: Ddl) -> None:
        at, kind = f"{feed} {ddl.commit_ts}", ddl.kind
        super().__init__(
            ddl.commit_ts,
            f"nobody decided what a DDL of kind {kind} does to feed {feed}",
            hint=f"`tidelog ddl pass {at}` or `tidelog ddl skip {at}`; for all of its kind"
            f" `tidelog ddl policy {feed} {kind}=skip` (or =rewrite, =forward)",
        )
        self.ddl = ddl


class SchemaBehind(Exception):
    """A mutation carries a schema version up to which jobs may be unknown. Internal: the publisher
    looks whether the history has them, and lifts `allowed_version`."""

    def __init__(self, version: int) -> None:
        super().__init__(version)
        self.version = version


class MustAsk(Exception):
    """Decoding this transaction takes more than a call: its file, or more of the DDL history.
    Internal to the publisher and `Decoding`."""
