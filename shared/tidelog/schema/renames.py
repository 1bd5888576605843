"""Which schemas a RENAME's text names: the history keeps of each table its new name alone."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tidelog.schema.history import Schemas
from tidelog.schema.jobs import RENAME_TABLE, RENAME_TABLES
from tidelog.schema.steps import Step

_QUOTED = r"`(?:[^`]|``)+`|\"(?:[^\"]|\"\")+\""
_TOKEN = re.compile(
    rf"/\*.*?(?:\*/|\Z)|(?:#|--\s)[^\n]*|({_QUOTED})|([^\s`\".,;/()*=]+)|(\S)", re.DOTALL
)

_SIGNS = frozenset('.,;/()*=`"')

Pair = tuple[str, str]
"""The schemas of a table's old and new name, "" where the name is unqualified."""


def renames(query: str) -> list[Pair]:
    """`RENAME TABLE a TO b.c, …` in order, or `ALTER TABLE a RENAME [TO|AS|=] b.c`; empty for what
    is neither."""
    try:
        return list(_pairs(_Words(query)))
    except IndexError:
        return []


def session_of(schemas: Schemas, job: Step) -> int:
    """The id of the schema that unqualified names of a job's query mean, before it is applied; 0:
    nobody can tell. The job of a rename is the last target's."""
    pairs = renames(job.query) if job.type in (RENAME_TABLE, RENAME_TABLES) else []
    if not pairs or not pairs[-1][1]:
        return job.schema_id
    moved: set[int] = set()
    for (old, _), info in zip(pairs, job.tables, strict=False):
        before = schemas.current(info.id)
        if not old and before is not None and info.id not in moved:
            return before.db_id
        moved.add(info.id)
    return job.schema_id if all(old and new for old, new in pairs) else 0


class _Words:
    """Goes over the words of one statement. Names in quotes are no keywords. Raises IndexError at
    the end, or where a name is expected and none stands."""

    def __init__(self, query: str) -> None:
        found = (match.groups("") for match in _TOKEN.finditer(query))
        self._found = [(one[0], one[1] + one[2]) for one in found if any(one)]
        self._at = 0

    def takes(self, *keywords: str) -> bool:
        """Whether one of these is next; then it is behind us."""
        if self._at == len(self._found) or self._found[self._at][1].upper() not in keywords:
            return False
        self._at += 1
        return True

    def schema(self) -> str:
        """The schema of the name that is next."""
        first = self._name()
        if not self.takes("."):
            return ""
        self._name()
        return first

    def _name(self) -> str:
        quoted, bare = self._found[self._at]
        self._at += 1
        if bare in _SIGNS:
            raise IndexError
        return quoted[1:-1].replace(quoted[0] * 2, quoted[0]) if quoted else bare


def _pairs(words: _Words) -> Iterator[Pair]:
    if words.takes("ALTER"):
        words.takes("IGNORE")
        if not words.takes("TABLE"):
            return
        old = words.schema()
        if words.takes("RENAME"):
            words.takes("TO", "AS", "=")
            yield old, words.schema()
        return
    if not (words.takes("RENAME") and words.takes("TABLE", "TABLES")):
        return
    while True:
        old = words.schema()
        if not words.takes("TO"):
            raise IndexError
        yield old, words.schema()
        if not words.takes(","):
            return
