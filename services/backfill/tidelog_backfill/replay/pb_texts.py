"""DDL texts of pb_binlog files without a DDL history: what they do is read out of them, as the
Writer reads its application's statements (`tidelog.pump_client.ddl`). Pure.

Tables that are older than the files are as the downstream has them. What was before its checkpoint
is done there; so of that nothing has to be understood.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import pairwise
from typing import final

import msgspec
from sqlglot import exp

from tidelog.changes import DdlMessage, DdlTable
from tidelog.decode.sql_tokens import replaced
from tidelog.errors import BadInput
from tidelog.pump_client.ddl.change import Change
from tidelog.pump_client.ddl.errors import DdlNotSupported
from tidelog.pump_client.ddl.parse import Tree, kind, parse
from tidelog.pump_client.ddl.plan import plan
from tidelog.pump_client.tables.catalog import Catalog
from tidelog.schema import jobs
from tidelog.schema.model import DBInfo, DdlJob, Name, TableInfo
from tidelog.schema.structure import TableStructure
from tidelog.schema.tracker import DdlOutcome, SchemaTracker
from tidelog.timestamps import LOGICAL_BITS, physical_ms
from tidelog_backfill.files.names import Names
from tidelog_backfill.replay.errors import DdlNotTold
from tidelog_backfill.replay.pb_ddls import TextDdl, message
from tidelog_backfill.replay.routing import Place
from tidelog_backfill.replay.table_infos import table_info

_CHARSET = "utf8mb4", "utf8mb4_bin"


@final
class TextSchemas:
    """`present`: the downstream's tables, as they are at `after_ts`. `names`: of the tables that
    are wanted; a text that can't be understood and names none of them is passed by. `begun_ts`: the
    commit_ts of a DDL that was begun downstream. `ddls_done`: versions of DDLs that are done there:
    an early one is before its place."""

    def __init__(
        self,
        present: Mapping[Place, TableStructure],
        after_ts: int,
        names: Names,
        begun_ts: int = 0,
        ddls_done: Collection[int] = (),
    ) -> None:
        self._present = present
        self._after = after_ts
        self._wanted = names
        self._begun = begun_ts
        self._ddls_done = ddls_done
        self._catalog = Catalog()
        self._tracker = SchemaTracker()
        self._joined = False
        self._theirs: set[Place] = set()
        """Tables that only the downstream tells, as they are there."""
        self.left_out: dict[str, int] = {}
        self.forgotten: list[tuple[int, Place]] = []

    def base(self, db: str, name: str) -> TableStructure | None:
        """A table that no text made."""
        return self._present.get((db, name))

    def message(self, ddl: TextDdl) -> DdlMessage | None:
        """None: nothing is to be run. Raises DdlNotTold."""
        is_done = ddl.commit_ts <= self._after
        if not is_done and not self._joined:
            self._join()
        try:
            outcomes = self._outcomes(ddl)
        except BadInput as error:
            if self._came_early(ddl):  # only the downstream tells its table: as it is behind it
                return None
            if not is_done and self._is_wanted(ddl):
                raise DdlNotTold(ddl, error.message) from error
            self._forget(ddl)
            return None
        if ddl.commit_ts == self._begun and not self._theirs.isdisjoint(_before(outcomes)):
            raise DdlNotTold(ddl, "it was begun, and only the downstream tells what was before it")
        return _unkept(message(ddl, outcomes)) if outcomes else None

    def _came_early(self, ddl: TextDdl) -> bool:
        """Its version, too, is of its time, or a little above."""
        above = (version - ddl.commit_ts for version in self._ddls_done)
        return ddl.commit_ts > self._after and any(0 <= one < 1 << LOGICAL_BITS for one in above)

    def _outcomes(self, ddl: TextDdl) -> list[DdlOutcome]:
        """Raises DdlNotSupported, DdlRefused."""
        tree = parse(_plain(ddl))
        of_database = str(tree.args.get("kind") or "").upper() in ("DATABASE", "SCHEMA")
        if ddl.db and not (of_database and kind(tree) == "Create"):
            self._know_database(ddl.db)
        for table in () if of_database or not ddl.db else tree.find_all(exp.Table):
            if not table.args.get("db"):
                table.set("db", exp.to_identifier(ddl.db, quoted=True))
        at = datetime.fromtimestamp(physical_ms(ddl.commit_ts) / 1000, UTC)
        found: list[DdlOutcome] = []
        for one in _single(tree):
            change = plan(one, self._catalog, f"{at:%Y-%m-%d %H:%M:%S.%f}")
            if change is not None:
                found.append(self._did(change, ddl.query, ddl.commit_ts))
        return found

    def _did(self, change: Change, query: str, commit_ts: int) -> DdlOutcome:
        """Versions rise with commit_ts, so that they are the same wherever the files begin."""
        version = max(self._catalog.version, commit_ts)
        job = change.job(self._catalog.next_id, version, query, commit_ts)
        self._add(job)
        return self._tracker.ddl(job.id)

    def _add(self, job: DdlJob) -> None:
        self._catalog.add([job])
        self._tracker.add_jobs([job])

    def _join(self) -> None:
        """From here on the downstream's tables are there, too."""
        self._joined = True
        for (db, name), structure in self._present.items():
            if self._catalog.find(db, name) is None:
                known = self._know_database(db)
                info = table_info(structure, self._catalog.next_id + 1)
                self._did(Change(jobs.CREATE_TABLE, known, info.id, name, info), "", 0)
                self._theirs.add((db.lower(), name.lower()))

    def _know_database(self, name: str) -> DBInfo:
        known = self._catalog.databases.get(name.lower())
        if known is None:
            number = self._catalog.next_id + 1
            known = DBInfo(number, Name(name, name.lower()), *_CHARSET)
            self._did(Change(jobs.CREATE_SCHEMA, known), "", 0)
        return known

    def _is_wanted(self, ddl: TextDdl) -> bool:
        names = ddl.names
        pairs = [(db, name) for db in (ddl.db, *names) for name in names]
        return not pairs or any(self._wanted.wants(*pair) for pair in pairs)

    def _forget(self, ddl: TextDdl) -> None:
        """What the tables that it names are now, it doesn't tell."""
        for db, info in self._living(ddl.names):
            gone = msgspec.structs.replace(info, state=jobs.STATE_NONE)
            name = info.name.text
            change = Change(jobs.DROP_TABLE, db, info.id, name, gone, jobs.STATE_NONE)
            self._did(change, "", 0)
            self.forgotten.append((ddl.commit_ts, (db.db_name.text, name)))

    def _living(self, names: Iterable[str]) -> list[tuple[DBInfo, TableInfo]]:
        databases = self._catalog.databases
        pairs = [(db, name) for db in databases for name in names]
        found = ((databases[db], self._catalog.find(db, name)) for db, name in pairs)
        return [(db, table.info) for db, table in found if table is not None]


def _before(outcomes: Iterable[DdlOutcome]) -> Iterator[Place]:
    """The tables that they change."""
    for outcome in outcomes:
        for one in outcome.affected:
            if one.before is not None:
                yield one.before.db.lower(), one.before.name.lower()


def _single(tree: Tree) -> list[Tree]:
    """ALTER TABLE with several actions is one after the other."""
    actions = tree.args.get("actions") or []
    if kind(tree) != "Alter" or len(actions) < 2:
        return [tree]
    trees = []
    for at in range(len(actions)):
        one = tree.copy()
        one.set("actions", [one.args["actions"][at]])
        trees.append(one)
    return trees


def _plain(ddl: TextDdl) -> str:
    """What TiDB writes and the parser doesn't know: character sets before literals, RENAME AS.
    Raises DdlNotSupported."""
    found = ddl.tokens
    if not found:
        raise DdlNotSupported("its words can't be told apart")
    changes: list[tuple[int, int, str]] = []
    for one, following in pairwise(found):
        if one.word.startswith("_") and following.is_string:
            changes.append((one.start, one.end, ""))
        if one.word == "RENAME" and following.word == "AS":
            changes.append((following.start, following.end, "TO"))
    return replaced(ddl.query, changes)


def _unkept(told: DdlMessage) -> DdlMessage:
    """Ids are the upstream's, which no text tells: by ours no dropped table's rows can be kept."""

    def shape(one: TableStructure | None) -> TableStructure | None:
        return msgspec.structs.replace(one, id=0) if one is not None else None

    tables = [
        DdlTable(one.db_before, one.db_after, shape(one.before), shape(one.after))
        for one in told.tables
    ]
    return msgspec.structs.replace(told, tables=tables, table=shape(told.table))
