"""One transaction's payload into DDL or rows by table; what is dropped is counted by its reason.

Pure but for the tracker it asks. Events leave as bytes: the feed's envelope encodes them once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from google.protobuf.message import DecodeError

from tidelog.decode.config import DecodeConfig
from tidelog.decode.ddl_filter import IGNORED_TXN
from tidelog.decode.ddls import Ddls
from tidelog.decode.envelope import TIDELOG, Envelope
from tidelog.decode.errors import SchemaBehind, Undecodable
from tidelog.decode.large import LargeRows
from tidelog.decode.passed import Passed
from tidelog.decode.routes import Route, Routes
from tidelog.decode.shapes import Shapes
from tidelog.decode.survey import Survey
from tidelog.decode.transactions import DdlTxn, LargeTxn, RowTxn, TableRows, Txn
from tidelog.decode.wire import Readable
from tidelog.filter.filters import EVENT_FILTER, MARK, Filters
from tidelog.filter.loopback import LOOPBACK, has_channel
from tidelog.filter.rows import without
from tidelog.filter.unwanted import Unwanted
from tidelog.rows.errors import Malformed, RowCorrupt
from tidelog.rows.payload import MutationRows, Payload, read_payload
from tidelog.schema.tracker import SchemaTracker
from tidelog.skipped import from_key
from tidelog.unreadable import NOT_READABLE
from tidelog_proto.binlog_pb2 import Binlog


class Decoder:
    """Tells DDLs from rows, and gives every mutation its route."""

    def __init__(
        self,
        config: DecodeConfig,
        tracker: SchemaTracker,
        query_of: Callable[[int], str],
        envelope: Envelope = TIDELOG,
    ) -> None:
        self.passed = Passed()
        self.allowed_version = 0
        """Up to it every job is known. Newer mutations wait for the history: a DDL may have to be
        published first."""
        self._ahead: list[DdlTxn] = []
        """Early DDLs of the transaction being decoded, kept while the history is asked for more."""
        self._filters = Filters(config)
        self._shapes = Shapes(config)
        self.ddls = Ddls(config, tracker, self.passed, query_of, self._filters)
        self._routes = Routes(config, tracker, self.passed, self._filters, envelope)

    def decode(self, txn: Txn) -> RowTxn | DdlTxn | None:
        """None: dropped, and counted.

        Raises UnknownTable, UnknownJob or SchemaBehind (fetch more of the history and ask again),
        InDoubt, Undecodable.
        """
        commit_ts, start_ts, payload = txn
        assert isinstance(payload, bytes)
        if self._filters.ignores_txn(commit_ts) and not _is_ddl(payload):
            self.passed.drop(IGNORED_TXN)
            return None
        try:
            found = read_payload(payload)
            if found.is_ddl:
                ddl = self.ddls.decode(commit_ts, start_ts, Binlog.FromString(payload))
                self.schema_changed()
                if ddl is not None:
                    self._check_shapes(ddl)
                return ddl
            skipped = from_key(found.key)
        except NOT_READABLE as error:
            raise Undecodable(commit_ts, "its record of what was skipped is none") from error
        except (Malformed, DecodeError) as error:
            raise Undecodable(commit_ts, "its bytes are no binlog") from error
        if skipped is not None:
            if found.mutations:
                raise Undecodable(commit_ts, "it records what was skipped, and has rows itself")
            size = len(found.key)  # about what it takes in a marker
            return RowTxn(commit_ts, start_ts, [], 0, size, skipped=skipped)
        return self._rows(commit_ts, start_ts, found)

    def large(
        self, commit_ts: int, start_ts: int, payload: Readable, found: Survey
    ) -> LargeTxn | RowTxn | DdlTxn | None:
        """`decode` for what was surveyed in its file: the rows are decoded as they are read."""
        try:
            head = Binlog.FromString(found.head)
            bare = head.ddl_job_id or head.ddl_query or from_key(head.prewrite_key) is not None
        except (DecodeError, *NOT_READABLE):
            bare = True  # `decode` says what is wrong with it
        if bare or self._filters.ignores_txn(commit_ts):
            decoded = self.decode((commit_ts, start_ts, found.head))
            if found.tables and isinstance(decoded, RowTxn):
                raise Undecodable(commit_ts, "it records what was skipped, and has rows itself")
            return decoded
        if found.version > self.allowed_version:
            raise SchemaBehind(found.version)
        routes = {
            table_id: self._routes.cached(table_id, found.version)
            or self._find_route(commit_ts, start_ts, table_id, found.version)
            for table_id in found.tables
        }
        rows = LargeRows(commit_ts, start_ts, payload, found, routes, self.passed)
        whole = not (MARK in routes.values() and self._is_large_echo(rows, found.version))
        if not whole:
            self.passed.drop(LOOPBACK)
        for table_id, route in routes.items() if whole else ():
            if isinstance(route, str):
                self.passed.drop(route, found.tables[table_id])
        ddls = self._decoded()
        published = whole and any(isinstance(route, Route) for route in routes.values())
        if not ddls and not published:
            if not routes:
                self.passed.drop("empty")
            return None
        slices = rows.slices if published else lambda: iter(())
        return LargeTxn(commit_ts, start_ts, slices, payload.close, ddls)

    def _is_large_echo(self, rows: LargeRows, version: int) -> bool:
        """As `_is_echo`. Raises Undecodable."""
        return any(
            has_channel(images, self._filters.channel_id)
            for images in rows.marks(lambda table_id: self._routes.mark(table_id, version))
        )

    @property
    def unwanted(self) -> Unwanted:
        """What the Pumps need not send any more."""
        return self._routes.met.unwanted

    def schema_changed(self) -> None:
        """Jobs were added, or a DDL was passed: routes are looked up again."""
        self._routes.clear()

    def _rows(self, commit_ts: int, start_ts: int, value: Payload) -> RowTxn | None:
        version = value.schema_version
        if version > self.allowed_version:
            raise SchemaBehind(version)
        tables: list[TableRows] = []
        rows = size = 0
        # All routes first: a mutation is decoded and counted once, when the schema is known.
        routes = [
            self._routes.cached(mutation.table_id, version)
            or self._find_route(commit_ts, start_ts, mutation.table_id, version)
            for mutation in value.mutations
        ]
        whole = not (MARK in routes and self._is_echo(commit_ts, value, routes))
        if not whole:
            self.passed.drop(LOOPBACK)
        for mutation, route in zip(value.mutations, routes, strict=True) if whole else ():
            if isinstance(route, str):
                self.passed.drop(route)
                continue
            if route.ignored:
                mutation, left_out = without(mutation, route.ignored)
                self.passed.drop(EVENT_FILTER, left_out)
            decoded = _table_rows(commit_ts, start_ts, mutation, route, version, rows)
            if not decoded.events:  # no row came with it, or none is left
                continue
            size += sum(map(len, decoded.events))
            rows += len(decoded.events)
            tables.append(decoded)
        ddls = self._decoded()
        if not rows and not ddls:
            if not any(mutation.sequence for mutation in value.mutations):
                self.passed.drop("empty")
            return None
        return RowTxn(commit_ts, start_ts, tables, rows, size, ddls)

    def _is_echo(self, commit_ts: int, value: Payload, routes: Sequence[Route | str]) -> bool:
        """Whether the other direction of our channel wrote it. Raises Undecodable."""
        marks = [
            (mutation, self._routes.mark(mutation.table_id, value.schema_version))
            for mutation, route in zip(value.mutations, routes, strict=True)
            if route == MARK
        ]
        try:
            return any(
                has_channel(codec.decode(mutation), self._filters.channel_id)
                for mutation, codec in marks
            )
        except RowCorrupt as error:
            raise Undecodable(commit_ts, error.message, hint=error.hint) from error

    def _decoded(self) -> list[DdlTxn]:
        """A transaction is done with; the DDLs that must stand before it."""
        self._routes.trim()
        ahead, self._ahead = self._ahead, []
        return ahead

    def _find_route(
        self, commit_ts: int, start_ts: int, table_id: int, version: int
    ) -> Route | str:
        ahead, passed = self.ddls.early(commit_ts, start_ts, table_id, version)
        if passed:
            self.schema_changed()
        for ddl in ahead:
            self._check_shapes(ddl)
        self._ahead += ahead
        route = self._routes.find(table_id, version)
        if isinstance(route, Route) and not self._shapes.idle:
            self._shapes.check(commit_ts, route.db, route.structure)
        return route

    def _check_shapes(self, ddl: DdlTxn) -> None:
        """Raises Undecodable."""
        if self._shapes.idle or ddl.message.brief:
            return
        for table in ddl.message.tables:
            for db, shape in ((table.db_before, table.before), (table.db_after, table.after)):
                if shape is not None:
                    self._shapes.check(ddl.commit_ts, db, shape)


def job_of(payload: bytes) -> int:
    """The DDL job whose binlog it is; 0 for rows, and for bytes that are no binlog."""
    try:
        return Binlog.FromString(payload).ddl_job_id
    except DecodeError:
        return 0


def _is_ddl(payload: bytes) -> bool:
    """Of bytes that are no binlog: no."""
    try:
        binlog = Binlog.FromString(payload)
    except DecodeError:
        return False
    return bool(binlog.ddl_job_id or binlog.ddl_query)


def _table_rows(
    commit_ts: int,
    start_ts: int,
    mutation: MutationRows,
    route: Route,
    version: int,
    before: int,
) -> TableRows:
    """The events of one mutation. Raises Undecodable."""
    own_schema = version >= route.table.version
    try:
        events, ops = route.envelope.events(mutation, own_schema, commit_ts, start_ts, before)
    except RowCorrupt as error:
        raise Undecodable(commit_ts, error.message, hint=error.hint) from error
    return TableRows(route, events, ops)
