"""An envelope that gives each event a message of its own, through the batcher."""

from __future__ import annotations

from collections.abc import Mapping

from tidelog import changes
from tidelog.changes import DdlMessage
from tidelog.decode.envelope import Ops, TableEnvelope
from tidelog.decode.routes import Route
from tidelog.decode.transactions import RowTxn, TableRows
from tidelog.rows.payload import MutationRows
from tidelog.schema.history import TableAt
from tidelog.schema.model import Name, TableInfo
from tidelog_drainer.publish.batcher import Batcher, Contents

ROWS = [b"c-one", b"u-two", b"d-three", b"c-four"]
OPS = ["c=1,u=0,d=0", "c=0,u=1,d=0", "c=0,u=0,d=1", "c=1,u=0,d=0"]


class Each:
    """A row's message is its text; its header, how long it is."""

    per_message = 1
    headers: Mapping[str, str] = {}
    overhead = 2

    def table(self, db: str, name: str, table: TableAt) -> TableEnvelope:
        return self

    def ddl(self, message: DdlMessage) -> bytes:
        return b""

    def events(
        self, mutation: MutationRows, own_schema: bool, commit_ts: int, start_ts: int, before: int
    ) -> tuple[list[bytes], Ops]:
        return [], (0, 0, 0)

    def op(self, event: bytes) -> bytes:
        return event[:1]

    def message(self, events: list[bytes]) -> tuple[bytes, Mapping[str, str]]:
        (event,) = events
        return b"<%b>" % event, {"Own-Length": str(len(event))}


ROUTE = Route("main", TableAt("app", "t", 7, TableInfo(id=1, name=Name("t", "t"))), Each())


def txn(ts: int, events: list[bytes]) -> RowTxn:
    table = TableRows(ROUTE, events, (2, 1, 1))
    return RowTxn(ts, ts - 1, [table], len(events), sum(map(len, events)))


def test_each_event_is_a_message_with_its_own_header_and_count() -> None:
    batcher = Batcher("main", "1:d", max_messages=1000, max_bytes=1 << 20, envelope=Each())
    batcher.add(txn(10, ROWS))
    batcher.add(txn(20, ROWS))
    batch = batcher.finish(0, 20)
    (chunk,) = batch.chunks
    rows, marker = chunk[:-1], chunk[-1]
    assert batch.ops == Contents(created=4, updated=2, deleted=2)
    assert [message.data for message in rows] == [b"<%b>" % event for event in ROWS * 2]
    assert [message.headers[changes.H_OPS] for message in rows] == OPS * 2
    assert [message.headers["Own-Length"] for message in rows] == ["5", "5", "7", "6"] * 2
    assert [message.headers[changes.H_FIRST_TS] for message in rows] == ["10"] * 4 + ["20"] * 4
    assert marker.headers[changes.H_INDEX] == "8"


def test_a_batch_takes_no_more_events_than_it_has_messages() -> None:
    batcher = Batcher("main", "1:d", max_messages=10, max_bytes=1 << 20, envelope=Each())
    batcher.add(txn(10, ROWS))
    assert not batcher.takes(txn(20, ROWS * 2))
    assert batcher.takes(txn(20, ROWS[:2]))
