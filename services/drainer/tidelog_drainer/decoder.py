"""One transaction's payload into DDL or rows by table; what is dropped is counted by its reason.

Pure but for the tracker it asks. Events leave as JSON bytes: they are encoded once, here.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from google.protobuf.message import DecodeError

from tidelog import subjects
from tidelog.changes import DdlMessage, DdlTable, Event
from tidelog.errors import Stopped
from tidelog.rows.errors import RowCorrupt
from tidelog.rows.table_codec import TableCodec
from tidelog.schema.errors import UnknownJob
from tidelog.schema.history import TableAt
from tidelog.schema.jobs import STATE_DELETE_ONLY, STATE_PUBLIC
from tidelog.schema.structure import TableStructure, structure
from tidelog.schema.tracker import DdlOutcome, SchemaTracker, is_setval
from tidelog.skipped import Skipped, from_key
from tidelog_drainer import ddl_policy
from tidelog_drainer.config import DrainerConfig
from tidelog_drainer.ddl_policy import DdlPolicy
from tidelog_drainer.merger import Txn
from tidelog_drainer.schema_store import key_of
from tidelog_proto.binlog_pb2 import Binlog, PrewriteValue

ROUTES_MAX = 4096
"""Cached tables; beyond it the cache begins anew."""

_event_json = msgspec.json.Encoder().encode


class Undecodable(Stopped):
    """A transaction that can't be turned into changes: the feed stops at it."""

    default_hint = "a wrong or incomplete ddl-history is likely: mend it, start the Drainer again"

    def __init__(self, commit_ts: int, reason: str, *, hint: str = "") -> None:
        super().__init__(f"transaction {commit_ts}: {reason}", hint=hint)
        self.commit_ts = commit_ts


class SchemaBehind(Exception):
    """A mutation carries a schema version above every job known. Internal: the publisher looks
    whether the history has it, and lifts `allowed_version`."""

    def __init__(self, version: int) -> None:
        super().__init__(version)
        self.version = version


class Route:
    """Where the rows of one table id at one schema version go; `dropped` names why nowhere."""

    def __init__(self, feed: str, table: TableAt) -> None:
        self.db = table.db
        self.table = table
        self.label = f"{subjects.escape(table.db)}.{subjects.escape(table.name)}"
        self.subject = subjects.changes_row(feed, table.db, table.name)
        self.head = b'{"db":%b,"table":%b,"schema_version":%d,"events":[' % (
            _event_json(table.db),
            _event_json(table.name),
            table.version,
        )
        self.codec = TableCodec(table.info)
        self._structure: TableStructure | None = None

    @property
    def structure(self) -> TableStructure:
        if self._structure is None:
            self._structure = structure(self.table)
        return self._structure


class TableRows(msgspec.Struct, gc=False):
    """Events of one mutation, in order, as JSON; `ops` counts c, u and d."""

    route: Route
    events: list[bytes]
    ops: tuple[int, int, int]


class DdlTxn(msgspec.Struct):
    """A DDL to publish, and the structures it names: key in SCHEMAS_<FEED> -> structure.

    `outstanding`: schema versions published early whose own binlogs are still to come.
    """

    commit_ts: int
    start_ts: int
    subject: str
    message: DdlMessage
    structures: dict[str, TableStructure]
    outstanding: tuple[int, ...] = ()


class RowTxn(msgspec.Struct):
    """A transaction with rows to publish, and the early DDLs that must stand before them: with
    these it may turn out to have no row. `skipped`: no rows, but a record for the readers."""

    commit_ts: int
    start_ts: int
    tables: list[TableRows]
    rows: int
    size: int
    ddls: list[DdlTxn] = []
    skipped: Skipped | None = None


class Decoder:
    """Keeps which schema version the feed's readers know of each table.

    TiDB sends a DDL's binlog only after its last schema version is in use: transactions of that
    version may stand before it. Such a DDL is published early, with the first of them, and its own
    binlog dropped.
    `query_of` gives a job's text, which an early DDL can't take from its binlog.
    """

    def __init__(
        self, config: DrainerConfig, tracker: SchemaTracker, query_of: Callable[[int], str]
    ) -> None:
        self.dropped: dict[str, int] = {}
        """Transactions, DDLs and mutations dropped, by reason."""
        self.base_version = 0
        """What readers know of every table that no DDL has touched since the start."""
        self.early: set[int] = set()
        """Schema versions published early whose own binlogs are still to come."""
        self.allowed_version = 0
        """Newer mutations wait for the history: their DDL may have to be published first."""
        self._ahead: list[DdlTxn] = []
        """Early DDLs of the transaction being decoded, kept while the history is asked for more."""
        self._known: dict[int, int] = {}
        self._query_of = query_of
        self._feed = config.feed
        self._tracker = tracker
        self._policy = DdlPolicy(config.ddl_policy)
        self._ignored = frozenset(name.lower() for name in config.ignore_schemas)
        self._routes: dict[tuple[int, int], Route | str] = {}

    def decode(self, txn: Txn) -> RowTxn | DdlTxn | None:
        """None: dropped, and counted.

        Raises UnknownTable, UnknownJob or SchemaBehind (fetch more of the history and ask again),
        Undecodable.
        """
        commit_ts, start_ts, payload = txn
        try:
            binlog = Binlog.FromString(payload)
            if binlog.ddl_job_id or binlog.ddl_query:
                return self._ddl(commit_ts, start_ts, binlog)
            value = PrewriteValue.FromString(binlog.prewrite_value)
            skipped = from_key(binlog.prewrite_key)
        except msgspec.DecodeError as error:
            raise Undecodable(commit_ts, "its record of what was skipped is none") from error
        except DecodeError as error:
            raise Undecodable(commit_ts, "its bytes are no binlog") from error
        if skipped is not None:
            if value.mutations:
                raise Undecodable(commit_ts, "it records what was skipped, and has rows itself")
            size = len(binlog.prewrite_key)  # about what it takes in a marker
            return RowTxn(commit_ts, start_ts, [], 0, size, skipped=skipped)
        return self._rows(commit_ts, start_ts, value)

    def schema_changed(self) -> None:
        """Jobs were added, or a DDL was passed: routes are looked up again."""
        self._routes.clear()

    def drop(self, reason: str) -> None:
        """Count something that is not published (I7)."""
        self.dropped[reason] = self.dropped.get(reason, 0) + 1

    # Rows

    def _rows(self, commit_ts: int, start_ts: int, value: PrewriteValue) -> RowTxn | None:
        version = value.schema_version
        if version > self.allowed_version:
            raise SchemaBehind(version)
        tables: list[TableRows] = []
        rows = size = 0
        # All routes first: a mutation is decoded and counted once, when the schema is known.
        routes: list[Route | str] = []
        for mutation in value.mutations:
            route = self._routes.get((mutation.table_id, version))
            if route is None:
                self._early_ddls(commit_ts, start_ts, mutation.table_id, version)
                route = self._find_route(mutation.table_id, version)
            routes.append(route)
        for mutation, route in zip(value.mutations, routes, strict=True):
            if isinstance(route, str):
                self.drop(route)
                continue
            try:
                changes = route.codec.decode(mutation, version >= route.table.version)
            except RowCorrupt as error:
                raise Undecodable(commit_ts, error.message, hint=error.hint) from error
            events: list[bytes] = []
            created = updated = 0
            keys = route.codec.key_columns
            for change in changes:
                before, after = change.before, change.after
                if before is None:
                    created += 1
                    image = after
                else:
                    updated += after is not None
                    image = before
                assert image is not None
                key = {name: image[name] for name in keys} if keys else None
                event = _event_json(
                    Event(change.op, commit_ts, key, before, after, list(change.b64))
                )
                size += len(event)
                events.append(event)
            count = len(events)
            rows += count
            tables.append(TableRows(route, events, (created, updated, count - created - updated)))
        ddls, self._ahead = self._ahead, []
        if not rows and not ddls:
            if not tables and not routes:
                self.drop("empty")
            return None
        return RowTxn(commit_ts, start_ts, tables, rows, size, ddls)

    def _find_route(self, table_id: int, version: int) -> Route | str:
        """Rows go out in the form that readers know: the newest the stream has passed, or the
        mutation's own. An id that was truncated or dropped by then is discarded."""
        newest = max(version, self._known.get(table_id, self.base_version))
        route: Route | str
        if self._tracker.is_dropped_or_truncated(table_id, newest):
            route = "truncated"
        else:
            table = self._tracker.table(table_id, newest)
            ignored = table.db.lower() in self._ignored
            route = "system" if ignored else Route(self._feed, table)
        if len(self._routes) >= ROUTES_MAX:
            self._routes.clear()
        self._routes[table_id, version] = route
        return route

    def _early_ddls(self, commit_ts: int, start_ts: int, table_id: int, version: int) -> None:
        """Put the DDLs that must stand before a transaction of this version ahead of it."""
        known = self._known.get(table_id, self.base_version)
        for job_id in self._tracker.jobs_between(table_id, known, version):
            outcome = self._tracker.ddl(job_id)
            reason = self._why_not(commit_ts, outcome, STATE_PUBLIC)
            self._note_passed(outcome)
            self.early.add(outcome.schema_version)
            if not reason:
                query = self._query_of(job_id)
                ddl = self._forwarded(commit_ts, start_ts, query, outcome, early=True)
                self._ahead.append(ddl)

    def _note_passed(self, outcome: DdlOutcome) -> None:
        """Readers know these tables by this version now."""
        for one in outcome.affected:
            for state in (one.before, one.after):
                if state is not None:
                    self._known[state.info.id] = outcome.schema_version
        self.schema_changed()

    # DDL

    def _ddl(self, commit_ts: int, start_ts: int, binlog: Binlog) -> DdlTxn | None:
        try:
            query = binlog.ddl_query.decode()
        except UnicodeDecodeError as error:
            raise Undecodable(commit_ts, "its DDL is not UTF-8") from error
        try:
            outcome = self._tracker.ddl(binlog.ddl_job_id, binlog.ddl_schema_state)
        except UnknownJob:
            if not is_setval(query):
                raise
            self.drop("setval")
            return None
        if not outcome.changes_nothing and outcome.schema_version in self.early:
            self.early.discard(outcome.schema_version)
            self.drop("early")
            return None
        self._note_passed(outcome)
        reason = self._why_not(commit_ts, outcome, binlog.ddl_schema_state)
        if reason:
            self.drop(reason)
            return None
        return self._forwarded(commit_ts, start_ts, query, outcome)

    def _why_not(self, commit_ts: int, outcome: DdlOutcome, schema_state: int) -> str:
        names = {outcome.db.lower()} | {one.db.lower() for one in outcome.affected}
        if outcome.system or names <= self._ignored:
            return "system"
        if outcome.changes_nothing:
            two_step = outcome.kind.startswith("drop_column")
            if two_step and schema_state == STATE_DELETE_ONLY:
                return "drop_column_first"
            return "rolled_back"
        action = self._policy.action(outcome.kind)
        if action == ddl_policy.STOP:
            raise Undecodable(
                commit_ts,
                f"nobody decided what a DDL of kind {outcome.kind} does to this feed",
                hint=f"set ddl-policy {outcome.kind}=forward or {outcome.kind}=skip",
            )
        return self._policy.reason(outcome.kind) if action == ddl_policy.SKIP else ""

    def _forwarded(
        self,
        commit_ts: int,
        start_ts: int,
        query: str,
        outcome: DdlOutcome,
        *,
        early: bool = False,
    ) -> DdlTxn:
        tables: list[DdlTable] = []
        structures: dict[str, TableStructure] = {}
        for one in outcome.affected:
            before = structure(one.before) if one.before is not None else None
            after = structure(one.after) if one.after is not None else None
            db_before = one.before.db if one.before is not None else ""
            db_after = one.after.db if one.after is not None else ""
            tables.append(DdlTable(db_before, db_after, before, after))
            for db, shape in ((db_before, before), (db_after, after)):
                if shape is not None:
                    structures[key_of(db, shape)] = shape
        first = tables[0] if tables else DdlTable()
        shown = first.after or first.before
        message = DdlMessage(
            commit_ts=commit_ts,
            query=query,
            kind=outcome.kind,
            db=outcome.db,
            schema_version=outcome.schema_version,
            table=first.after,
            tables=tables,
            early=early,
        )
        subject = subjects.changes_ddl(
            self._feed,
            first.db_after or first.db_before or outcome.db,
            shown.name if shown is not None else "",
        )
        outstanding = tuple(sorted(self.early))
        return DdlTxn(commit_ts, start_ts, subject, message, structures, outstanding=outstanding)
