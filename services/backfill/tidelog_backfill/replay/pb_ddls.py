"""DDLs as pb_binlog files tell them: texts, ``use `db`; …``. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec
from google.protobuf.message import DecodeError

from tidelog.changes import DdlMessage, DdlTable
from tidelog.decode.sql_tokens import NotTokens, Token, tokens
from tidelog.errors import Corrupt
from tidelog.schema.history import TableAt
from tidelog.schema.structure import TableStructure, structure
from tidelog.schema.tracker import DdlOutcome
from tidelog.timestamps import TS_MAX
from tidelog_backfill.files.chunk import Facts, FoundDdl
from tidelog_proto.pb_binlog_pb2 import Binlog

_USE = re.compile(r"\s*use\s+`((?:[^`]|``)*)`\s*;", re.IGNORECASE)


class TextDdl(msgspec.Struct, frozen=True):
    """`db`: the schema of unqualified names, "" where the file tells none. `where`: file and
    offset. `early`: rows of its commit_ts stand behind it."""

    commit_ts: int
    db: str
    query: str
    where: str
    early: bool = False

    @property
    def tokens(self) -> list[Token]:
        """None of a text whose words can't be told apart."""
        return told_apart(self.query)

    @property
    def names(self) -> frozenset[str]:
        """Whatever may be a name in it, in lower case."""
        return frozenset(one.text.lower() for one in self.tokens if one.text)


def text_ddls(facts: Iterable[Facts], until_ts: int) -> list[TextDdl]:
    """Up to `until_ts`, in order. A drainer that began again from its savepoint wrote some twice.
    Raises Corrupt."""
    facts = list(facts)
    begun = {one.first_ts for each in facts for one in each.versions}
    found: dict[tuple[int, str, str], TextDdl] = {}
    for each in facts:
        for ddl in each.ddls:
            one = _text(each, ddl, early=ddl.commit_ts in begun)
            if one.commit_ts <= until_ts:
                found.setdefault((one.commit_ts, one.db, one.query), one)
    return sorted(found.values(), key=lambda one: one.commit_ts)


def databases(facts: Iterable[Facts]) -> list[str]:
    """Those that rows and DDLs are of. Raises Corrupt."""
    facts = list(facts)
    found = {one.db for each in facts for one in each.versions}
    found |= {ddl.db for ddl in text_ddls(facts, TS_MAX) if ddl.db}
    return sorted(found)


def _text(facts: Facts, ddl: FoundDdl, *, early: bool) -> TextDdl:
    where = f"{facts.chunk.path} at offset {ddl.offset}"
    try:
        text = Binlog.FromString(ddl.payload).ddl_query.decode()
    except (DecodeError, UnicodeDecodeError) as error:
        raise Corrupt(f"{where}: a DDL that is no text: {error}") from error
    used = _USE.match(text)
    db = used[1].replace("``", "`") if used is not None else ""
    query = bare(text[used.end() if used is not None else 0 :])
    return TextDdl(ddl.commit_ts, db, query, where, early)


def bare(text: str) -> str:
    """Without what ends it."""
    return text.strip().rstrip(";").rstrip()


def told_apart(query: str) -> list[Token]:
    try:
        return tokens(query)
    except NotTokens:
        return []


def message(ddl: TextDdl, outcomes: Sequence[DdlOutcome]) -> DdlMessage:
    """Of the jobs that it came to, which change the same table where they are several."""
    first, last = outcomes[0], outcomes[-1]
    tables = [
        DdlTable(
            one.before.db if one.before is not None else "",
            one.after.db if one.after is not None else "",
            _shape(one.before),
            _shape(one.after),
        )
        for one in first.affected
    ]
    kind = first.kind
    if last is not first:
        (was,), (now,) = first.affected, last.affected
        tables = [DdlTable(now.db, now.db, _shape(was.before), _shape(now.after))]
        kind = "multi_schema_change"
    return DdlMessage(
        commit_ts=ddl.commit_ts,
        query=ddl.query,
        kind=kind,
        db=last.db,
        schema_version=last.schema_version,
        table=tables[0].after if tables else None,
        tables=tables,
        early=ddl.early,
        brief=last.brief,
    )


def _shape(table: TableAt | None) -> TableStructure | None:
    return structure(table) if table is not None else None
