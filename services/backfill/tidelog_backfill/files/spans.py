"""Which transactions a view shows. Pure."""

from __future__ import annotations

from bisect import bisect_left

from tidelog.changes import schema_key
from tidelog_backfill.files.names import Names
from tidelog_backfill.files.view import NO_STRUCTURE, NOT_WANTED, Span, View


class Spans:
    """Of a view: by commit_ts, and by the names that tables tell themselves."""

    def __init__(self, view: View) -> None:
        self.names = Names(view.only)
        self._spans = view.spans
        self._untils = [span.until_ts for span in view.spans]
        self._ignored = view.ignored_txns
        self._ranges: list[tuple[int, int]] = []
        for span in view.spans:
            if self._ranges and self._ranges[-1][1] == span.after_ts:
                self._ranges[-1] = self._ranges[-1][0], span.until_ts
            else:
                self._ranges.append((span.after_ts, span.until_ts))
        self._lacking = view.lacking
        self._reasons: dict[tuple[str, str, int], str] = {}
        self.all_names = not view.only and not view.lacking

    def of(self, commit_ts: int) -> Span | None:
        """The one a transaction is shown in."""
        return None if commit_ts in self._ignored else self._at(commit_ts)

    def ignores(self, commit_ts: int) -> bool:
        """Whether it would be shown, were it not ignored."""
        return commit_ts in self._ignored and self._at(commit_ts) is not None

    def why_not(self, db: str, table: str, version: int) -> str:
        """The reason why nothing is shown of such rows, which tell their names themselves; "": they
        are shown."""
        key = db, table, version
        reason = self._reasons.get(key)
        if reason is None:
            reason = self._reasons[key] = self._reason(db, table, version)
        return reason

    def _reason(self, db: str, table: str, version: int) -> str:
        if not self.names.wants(db, table):
            return NOT_WANTED
        if self._lacking and schema_key(db, table, version) in self._lacking:
            return NO_STRUCTURE
        return ""

    def _at(self, commit_ts: int) -> Span | None:
        at = bisect_left(self._untils, commit_ts)
        if at == len(self._spans):
            return None
        span = self._spans[at]
        return span if commit_ts > span.after_ts else None

    def cover(self, after: int, until: int) -> bool:
        """Whether all of (after, until] is shown, but for tables that are not."""
        if self._ignored:
            return False
        for begin, end in self._ranges:  # noqa: SIM110 - once per record: a generator takes longer
            if begin <= after and until <= end:
                return True
        return False

    def touch(self, after: int, until: int) -> bool:
        """Whether anything of (after, until] may be shown."""
        for begin, end in self._ranges:  # noqa: SIM110 - as above
            if begin < until and after < end:
                return True
        return False
