"""The rows of a large transaction, from its file, as events: a slice in memory at a time. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from tidelog.decode.errors import Undecodable
from tidelog.decode.passed import Passed
from tidelog.decode.routes import Route
from tidelog.decode.survey import Mutation, Slice, Survey, mutations, slices
from tidelog.decode.transactions import TableRows
from tidelog.decode.wire import Readable
from tidelog.filter.filters import EVENT_FILTER, MARK
from tidelog.filter.rows import without
from tidelog.rows.errors import RowCorrupt
from tidelog.rows.table_codec import RowChange, TableCodec


class LargeRows:
    """`routes`: of each table id that the survey found; without a Route its rows aren't read."""

    def __init__(
        self,
        commit_ts: int,
        start_ts: int,
        payload: Readable,
        survey: Survey,
        routes: Mapping[int, Route | str],
        passed: Passed,
    ) -> None:
        self._commit_ts = commit_ts
        self._start_ts = start_ts
        self._payload = payload
        self._survey = survey
        self._routes = routes
        self._passed = passed

    def slices(self) -> Iterator[TableRows | None]:
        """What LargeTxn.slices promises."""
        before, empty = 0, True
        for mutation in mutations(self._payload, self._survey):
            empty = empty and (mutation is None or not mutation.named)
            route = self._routes[mutation.table_id] if mutation is not None else None
            if mutation is None or not isinstance(route, Route):
                yield None
                continue
            for part in self._parts(mutation):
                rows = self._decoded(part, route, before) if part is not None else None
                before += len(rows.events) if rows is not None else 0
                yield rows
        if empty:
            self._passed.drop("empty")

    def marks(self, codec_of: Callable[[int], TableCodec]) -> Iterator[list[RowChange]]:
        """What the transaction writes into the mark table. Raises Undecodable."""
        for mutation in mutations(self._payload, self._survey):
            if mutation is None or self._routes[mutation.table_id] != MARK:
                continue
            for part in self._parts(mutation):
                if part is None:
                    continue
                try:
                    yield codec_of(mutation.table_id).decode(part.mutation)
                except RowCorrupt as error:
                    raise self._undecodable(part.mended(error)) from error

    def _parts(self, mutation: Mutation) -> Iterator[Slice | None]:
        try:
            yield from slices(self._payload, mutation)
        except RowCorrupt as error:
            raise self._undecodable(error) from error

    def _decoded(self, part: Slice, route: Route, before: int) -> TableRows | None:
        mutation = part.mutation
        if route.ignored:
            mutation, left_out = without(mutation, route.ignored)
            self._passed.drop(EVENT_FILTER, left_out)
            if not mutation.sequence:
                return None
        own_schema = self._survey.version >= route.table.version
        try:
            events, ops = route.envelope.events(
                mutation, own_schema, self._commit_ts, self._start_ts, before
            )
        except RowCorrupt as error:
            raise self._undecodable(part.mended(error)) from error
        return TableRows(route, events, ops)

    def _undecodable(self, error: RowCorrupt) -> Undecodable:
        return Undecodable(self._commit_ts, error.message, hint=error.hint)
