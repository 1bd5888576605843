"""Whatever a Pump sends: changes, or a typed error; never another exception, never endless work.

Work is counted in calls (Python's and C's), as time says nothing on a machine with other work: a
bound that is linear in the bytes. The worst time is printed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from types import FrameType
from typing import Any, Literal

import msgspec
import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fixtures.capture import pulled
from tests.unit.drainer.test_decoder import decoder
from tests.unit.rows.tables import SAMPLES, int_key_table, mutation
from tests.unit.rows.test_round_trip import Row, rows_of_all_types
from tidelog.change_reader import Change, ChangeAssembler
from tidelog.changes import Marker
from tidelog.compression import unpack
from tidelog.decode.decoder import Decoder
from tidelog.decode.envelope import TIDELOG, Envelope
from tidelog.decode.errors import SchemaBehind, Undecodable
from tidelog.decode.transactions import DdlTxn
from tidelog.errors import Corrupt, UnparsablePayload
from tidelog.ports import Message
from tidelog.rows.table_codec import TableCodec
from tidelog.schema.errors import UnknownJob, UnknownTable
from tidelog.schema.model import DBInfo, DdlJob, HistoryInfo, Name
from tidelog.schema.tracker import SchemaTracker
from tidelog_drainer.config import DrainerConfig
from tidelog_drainer.decode.envelopes import envelope_of
from tidelog_drainer.merge.inbound import Inbound
from tidelog_drainer.merge.merger import Disorder, Merger, Overtaken
from tidelog_drainer.publish.batcher import Batcher
from tidelog_proto.binlog_pb2 import Binlog, PrewriteValue, TableMutation
from tidelog_proto.transport_pb2 import PulledTxn, PullFrame

CALLS, CALLS_A_BYTE = 20_000, 60
TYPED = (Undecodable, UnknownTable, UnknownJob, SchemaBehind)
TABLE = int_key_table(*(info for info, _ in SAMPLES))
CODEC = TableCodec(TABLE)
COMMIT_TS, START_TS = 70, 60
ROWS = "changes.main.row."


@contextmanager
def bounded(size: int) -> Iterator[None]:
    """At most so many calls for `size` bytes."""
    calls = 0

    def count(_frame: FrameType, event: str, _arg: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        yield
    finally:
        sys.setprofile(before)
    assert calls <= CALLS + CALLS_A_BYTE * size, f"{calls} calls for {size} bytes"


class Worst:
    """The longest that one payload took."""

    seconds, size = 0.0, 0

    @contextmanager
    def timed(self, size: int) -> Iterator[None]:
        with bounded(size):
            began = time.perf_counter()
            yield
            took = time.perf_counter() - began
        if took > self.seconds:
            self.seconds, self.size = took, size


@pytest.fixture(name="worst", scope="module")
def _worst() -> Iterator[Worst]:
    found = Worst()
    yield found
    print(f"any bytes: at worst {found.seconds * 1e3:.1f} ms, for {found.size} bytes")


def all_types(envelope: Literal["tidelog", "debezium"]) -> Decoder:
    """One that knows a table with a column of each type."""
    tracker = SchemaTracker()
    tracker.add_jobs(
        [
            DdlJob(1, 1, 9, 0, "app", binlog=HistoryInfo(1, DBInfo(9, Name("app", "app")))),
            DdlJob(2, 3, 9, TABLE.id, "app", "t", binlog=HistoryInfo(2, table_info=TABLE)),
        ]
    )
    config = DrainerConfig(envelope=envelope)
    made = Decoder(config, tracker, lambda _job: "", envelope_of(config))
    made.allowed_version = 2
    made.passed.base_version = 2
    return made


def recorded(envelope: str) -> Decoder:
    """One that knows the tables of a recording. Readers know the newest schema: no DDL is looked
    for in front of a transaction."""
    made = decoder("set-a", envelope=envelope)
    made.passed.base_version = 1 << 40
    return made


ALL_TYPES, RECORDED = all_types("tidelog"), recorded("tidelog")
AS_DEBEZIUM = {ALL_TYPES: all_types("debezium"), RECORDED: recorded("debezium")}
DEBEZIUM = envelope_of(DrainerConfig(envelope="debezium"))


def published(which: Decoder, payload: bytes, envelope: Envelope) -> list[Message]:
    """What becomes of a payload; nothing if it is dropped, or a typed error."""
    try:
        found = which.decode((COMMIT_TS, START_TS, payload))
    except TYPED:
        return []
    if found is None:
        return []
    batcher = Batcher("main", "1:d", max_messages=1000, max_bytes=4 << 20, envelope=envelope)
    if isinstance(found, DdlTxn):
        batch = batcher.ddl(found, 0)
    elif found.ddls:
        batch = batcher.early(found, 0)
    else:
        batcher.add(found)
        batch = batcher.finish(0, COMMIT_TS)
    sent = [out for chunk in batch.chunks for out in chunk]
    return [Message(out.subject, out.data, out.headers, n) for n, out in enumerate(sent, 1)]


def decoded(which: Decoder, payload: bytes) -> Change | None:
    """What a reader gets of a payload; None of one of which nothing is published."""
    messages = published(which, payload, TIDELOG)
    if not messages:
        return None
    (change,) = ChangeAssembler("main", 0).feed(messages)
    (txn,) = change.txns
    assert (txn.commit_ts, txn.start_ts) == (COMMIT_TS, START_TS)
    assert txn.rows == sum(len(rows.events) for rows in change.rows)
    assert all(rows.events for rows in change.rows)
    return change


def as_debezium(which: Decoder, payload: bytes) -> int:
    """How many rows the other envelope publishes of a payload: each is an event of its own."""
    messages = published(AS_DEBEZIUM[which], payload, DEBEZIUM)
    if not messages:
        return 0
    (txn,) = msgspec.json.decode(messages[-1].data, type=Marker).txns
    rows = [msgspec.json.decode(m.data) for m in messages if m.subject.startswith(ROWS)]
    assert txn.rows == len(rows)
    assert {row["source"]["commit_ts"] for row in rows} <= {COMMIT_TS}
    return txn.rows


def in_both(which: Decoder, payload: bytes, worst: Worst) -> None:
    for read in (decoded, as_debezium):
        with worst.timed(len(payload)):
            read(which, payload)


def binlog(value: bytes, **fields: Any) -> bytes:
    made = Binlog(start_ts=START_TS, commit_ts=COMMIT_TS, prewrite_value=value, **fields)
    return made.SerializeToString()


@cache
def golden() -> list[bytes]:
    """Recorded payloads: every DDL, and the rows of each table once for each kind of change. And
    one with a table's rows in front of a mutation of another table that has none."""
    found: dict[object, bytes] = {}
    tables: dict[int, PrewriteValue] = {}
    for one in pulled("set-a"):
        value = PrewriteValue.FromString(one.prewrite_value)
        shape = [(m.table_id, tuple(sorted(set(m.sequence)))) for m in value.mutations]
        key: object = one.ddl_job_id or tuple(sorted(shape))
        raw = one.SerializeToString()
        if key and len(raw) < 20_000:
            found.setdefault(key, raw)
            tables.update({m.table_id: value for m in value.mutations})
    first, *_, last = tables
    rowless = PrewriteValue.FromString(tables[last].SerializeToString())
    rowless.mutations.append(TableMutation(table_id=first))
    return [*found.values(), binlog(rowless.SerializeToString())]


@st.composite
def mutated(draw: st.DrawFn, sources: st.SearchStrategy[bytes]) -> bytes:
    """Bytes that were right: some changed, cut, put twice, or mixed with another's."""
    raw = bytearray(draw(sources))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(raw)))
        match draw(st.sampled_from(("byte", "bit", "cut", "drop", "twice", "insert", "mix"))):
            case "byte" if at < len(raw):
                raw[at] = draw(st.integers(0, 255))
            case "bit" if at < len(raw):
                raw[at] ^= 1 << draw(st.integers(0, 7))
            case "cut":
                del raw[at:]
            case "drop":
                del raw[at : at + draw(st.integers(1, 9))]
            case "twice":
                raw[at:at] = raw[at : at + draw(st.integers(1, 64))]
            case "insert":
                raw[at:at] = draw(st.binary(max_size=12))
            case "mix":
                raw[at:] = draw(sources)[at:]
    return bytes(raw)


# A round trip over all types: what the codec encodes, the Drainer publishes.


@given(rows_of_all_types(), rows_of_all_types())
def test_all_types_are_published_as_they_were_written(old: Row, new: Row) -> None:
    made = mutation(
        (CODEC.encode_insert(old, None),),
        (CODEC.encode_update(old, new, None),),
        (CODEC.encode_delete(new, None),),
    )
    value = PrewriteValue(schema_version=2, mutations=[made]).SerializeToString()
    change = decoded(ALL_TYPES, binlog(value))
    assert change is not None
    assert as_debezium(ALL_TYPES, binlog(value)) == 3
    (message,) = change.rows
    assert (message.db, message.table, message.schema_version) == ("app", "t", 2)
    insert, update, delete = message.events
    assert (insert.op, insert.before, insert.after) == ("c", None, old)
    assert (update.op, update.before, update.after) == ("u", old, new)
    assert (delete.op, delete.before, delete.after) == ("d", new, None)
    keys = [event.key for event in message.events]
    assert keys == [{"id": old["id"]}, {"id": old["id"]}, {"id": new["id"]}]


# Any bytes.


def test_golden_payloads_have_as_many_rows_in_each_envelope() -> None:
    seen = set()
    for payload in golden():
        change = decoded(RECORDED, payload)
        rows = sum(len(one.events) for one in change.rows) if change is not None else 0
        assert as_debezium(RECORDED, payload) == rows
        seen.add(rows)
    assert len(seen) > 2


@settings(max_examples=400, deadline=None)
@given(raw=st.binary(max_size=300))
def test_any_bytes_as_a_payload(raw: bytes, worst: Worst) -> None:
    for which in (ALL_TYPES, RECORDED):
        for payload in (raw, binlog(raw), binlog(b"", prewrite_key=b"tidelog.skipped:" + raw)):
            in_both(which, payload, worst)


@settings(max_examples=300, deadline=None)
@given(raw=st.binary(max_size=200), query=st.binary(max_size=60), job=st.integers(0, 200))
def test_any_bytes_as_rows_or_as_a_ddl(raw: bytes, query: bytes, job: int, worst: Worst) -> None:
    for rows in ({"inserts": (raw,)}, {"updates": (raw,)}, {"deletes": (raw,)}):
        made = PrewriteValue(schema_version=2, mutations=[mutation(**rows)])
        payload = binlog(made.SerializeToString())
        in_both(ALL_TYPES, payload, worst)
    payload = binlog(b"", ddl_query=query, ddl_job_id=job)
    in_both(RECORDED, payload, worst)


@settings(max_examples=600, deadline=None)
@given(data=st.data())
def test_a_damaged_golden_payload(data: st.DataObject, worst: Worst) -> None:
    payload = data.draw(mutated(st.sampled_from(golden())))
    in_both(RECORDED, payload, worst)


@settings(max_examples=300, deadline=None)
@given(row=rows_of_all_types(), data=st.data())
def test_a_damaged_row_of_all_types(row: Row, data: st.DataObject, worst: Worst) -> None:
    """The damage is in the row itself: what stands around it is whole."""
    raw = data.draw(mutated(st.just(CODEC.encode_update(row, row, None))))
    made = PrewriteValue(schema_version=2, mutations=[mutation(updates=(raw,))])
    payload = binlog(made.SerializeToString())
    in_both(ALL_TYPES, payload, worst)


# Frames.

timestamps = st.integers(-(2**63), 2**63 - 1) | st.integers(0, 60)


@st.composite
def frames(draw: st.DrawFn) -> PullFrame:
    """What no Pump would send, but parses."""
    frame = PullFrame(resolved_ts=draw(timestamps), high_ts=draw(timestamps))
    for _ in range(draw(st.integers(0, 4))):
        payload = draw(st.binary(max_size=20))
        right = draw(st.booleans())
        frame.txns.append(
            PulledTxn(
                commit_ts=draw(timestamps),
                start_ts=draw(timestamps),
                payload=payload,
                offset=0 if right else draw(st.integers(0, 2**64 - 1)),
                total=len(payload) if right else draw(st.integers(0, 2**64 - 1)),
                crc=crc32c(payload) if right else draw(st.integers(0, 2**32 - 1)),
            )
        )
    return frame


def taken(feed: Callable[[], PullFrame], inbound: Inbound, merger: Merger) -> None:
    """As a cursor and the collector take it."""
    try:
        frame = feed()
        txns, size = inbound.take(frame)
        inbound.ask("shop", 4 << 20, 1000).SerializeToString()
    except (UnparsablePayload, Corrupt):
        inbound.reset()
        return
    try:
        merger.push("p", txns, frame.resolved_ts, size)
    except (Disorder, Overtaken):
        return
    found = [txn[0] for txn in merger.take(merger.horizon())]
    assert found == sorted(set(found))


@settings(max_examples=300, deadline=None)
@given(sent=st.lists(frames(), max_size=6))
def test_frames_that_no_pump_would_send(sent: list[PullFrame], worst: Worst) -> None:
    inbound, merger = Inbound("p", 10), Merger(10)
    merger.add("p")
    for frame in sent:
        with worst.timed(frame.ByteSize()):
            taken(lambda frame=frame: frame, inbound, merger)  # type: ignore[misc]


@settings(max_examples=400, deadline=None)
@given(data=st.data())
def test_damaged_frames(data: st.DataObject, worst: Worst) -> None:
    whole = PullFrame(resolved_ts=COMMIT_TS)
    for number, payload in enumerate(golden()[:3]):
        whole.txns.append(
            PulledTxn(
                commit_ts=20 + number, payload=payload, total=len(payload), crc=crc32c(payload)
            )
        )
    packed = [whole.SerializeToString()]
    raw = data.draw(mutated(st.sampled_from(packed)) | st.binary(max_size=100))
    inbound, merger = Inbound("p", 10), Merger(10)
    merger.add("p")
    with worst.timed(len(raw)):
        taken(lambda: unpack(raw), inbound, merger)
