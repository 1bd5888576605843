"""Where the downstream is, in the words of the checkpoint that the feed's Applier reads (compare
the Applier's `Control`). Pure."""

from __future__ import annotations

from typing import final

from tidelog.changes import DdlMessage
from tidelog.downstream import Checkpoint


@final
class Position:
    """`saved`: the checkpoint that the downstream has; None: none."""

    def __init__(self, feed: str, saved: Checkpoint | None) -> None:
        self._feed = feed
        self.saved = saved
        self.doubtful = 0
        """Up to there an earlier life may have applied what the checkpoint doesn't tell."""
        if saved is not None and not saved.consistent:
            self.doubtful = max(saved.unsure, saved.reach)

    @property
    def commit_ts(self) -> int:
        return self.saved.commit_ts if self.saved is not None else 0

    @property
    def is_replays(self) -> bool:
        """It is of a replay that ended within a step: nobody else has written above it."""
        return self.saved is not None and self.saved.replayed

    @property
    def ddls_done(self) -> tuple[int, ...]:
        """Schema versions of DDLs that were run, the last of them."""
        return self.saved.ddls_done if self.saved is not None else ()

    @property
    def begun_ts(self) -> int:
        """commit_ts of a DDL that was begun, 0 = none was."""
        pending = self.saved.ddl_pending if self.saved is not None else None
        return pending.commit_ts if pending is not None else 0

    def at(self, commit_ts: int, *, reach: int = 0) -> Checkpoint:
        """Everything up to `commit_ts` is applied, and above it at most what lies up to `reach`. It
        is not consistent as long as an earlier life may have got further."""
        saved = self.saved or Checkpoint(commit_ts)
        pending = saved.ddl_pending
        consistent = max(reach, self.doubtful) <= commit_ts
        return Checkpoint(
            commit_ts,
            consistent=consistent,
            ts_map=saved.ts_map,
            feed=self._feed,
            ddl_pending=pending if pending and pending.commit_ts > commit_ts else None,
            ddls_done=saved.ddls_done,
            reach=0 if consistent else max(reach, commit_ts),
            unsure=self.doubtful if self.doubtful > commit_ts else 0,
            replayed=not consistent,
        )

    def after(self, ddl: DdlMessage, commit_ts: int) -> Checkpoint:
        """The DDL is done as well."""
        return self.at(commit_ts).with_ddl(ddl)
