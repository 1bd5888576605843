"""DDLs that the feed did not publish as they came: the newest listed, the others counted. Pure."""

from __future__ import annotations

import msgspec

from tidelog.drainer_control import Ddl, NotedDdls

LISTED = 100
QUERY_CHARS = 400
CLAUSE_CHARS = 100
CLAUSES = 4
"""Kept of a text; with `LISTED` they bound the whole well below a message."""


class Noted:
    """Of one feed. A DDL met again, after a crash or in a stream filled anew, is noted once."""

    def __init__(self) -> None:
        self.changed = False
        """Since it was last kept."""
        self._ddls: dict[tuple[int, int], Ddl] = {}
        self._older: dict[str, int] = {}

    def add(self, ddl: Ddl) -> None:
        place = ddl.commit_ts, ddl.job_id
        counted = bool(self._older and self._ddls) and place < min(self._ddls)
        if place in self._ddls or counted:
            return
        self._ddls[place] = shortened(ddl)
        self.changed = True
        self._trim()

    def _trim(self) -> None:
        while len(self._ddls) > LISTED:
            gone = self._ddls.pop(min(self._ddls))
            self._older[gone.why] = self._older.get(gone.why, 0) + 1

    def merged(self, kept: NotedDdls) -> NotedDdls:
        """With what was kept by this or an earlier life, or by another Drainer of the feed."""
        theirs = {(one.commit_ts, one.job_id): one for one in kept.ddls}
        both = theirs | self._ddls
        sides = ((theirs, kept.older), (self._ddls, self._older))
        counted = max((min(listed) for listed, older in sides if listed and older), default=(0, 0))
        whys = sorted(kept.older.keys() | self._older.keys())
        self._older = {why: max(kept.older.get(why, 0), self._older.get(why, 0)) for why in whys}
        self._ddls = {place: both[place] for place in sorted(both) if place >= counted}
        self._trim()
        return self.listed()

    def listed(self) -> NotedDdls:
        return NotedDdls([self._ddls[place] for place in sorted(self._ddls)], dict(self._older))


def shortened(ddl: Ddl) -> Ddl:
    """As it is kept."""
    removed = [_cut(one, CLAUSE_CHARS) for one in ddl.removed[:CLAUSES]]
    return msgspec.structs.replace(ddl, query=_cut(ddl.query, QUERY_CHARS), removed=removed)


def _cut(text: str, chars: int) -> str:
    return text if len(text) <= chars else text[: chars - 1] + "…"
