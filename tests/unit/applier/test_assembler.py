"""The Applier's assembler against the ChangeAssembler: whatever the stream holds, both say the same
of it, be a batch in one piece or in many."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.applier.publisher import FEED
from tests.unit.downstreams.shapes import ddl, table
from tidelog import changes, subjects
from tidelog.change_reader import ChangeAssembler
from tidelog.changes import DdlMessage, Event, MarkedTxn, Marker, RowMessage, Watermark
from tidelog.errors import TidelogError, UnparsablePayload
from tidelog.feed_reader import Gap
from tidelog.ports import Message
from tidelog.relay import Piece, Whole
from tidelog_applier.read.assembler import BatchAssembler, Item, Moved

_json = msgspec.json.encode
FRAGMENT = 300
Told = list[tuple[object, ...]]


class Txn(NamedTuple):
    """`rows`: (table, bytes of text) each."""

    commit_ts: int
    rows: list[tuple[int, int]]
    ddl: bool = False


def bodies(txns: list[Txn]) -> list[tuple[str, bytes, int, int]]:
    """Subject, body, first and last commit_ts of each message, rows grouped by table."""
    found = []
    events: dict[int, list[Event]] = {}
    for txn in txns:
        if txn.ddl:
            message = msgspec.structs.replace(
                ddl("create_table", (None, table("t0"))), commit_ts=txn.commit_ts
            )
            subject = subjects.changes_ddl(FEED, "d", "t0")
            found.append((subject, _json(message), txn.commit_ts, txn.commit_ts))
        for which, size in txn.rows:
            row = {"v": "x" * size}
            events.setdefault(which, []).append(Event("c", txn.commit_ts, None, None, row))
    for which, some in events.items():
        subject = subjects.changes_row(FEED, "d", f"t{which}")
        body = _json(RowMessage("d", f"t{which}", 1 + which, some))
        found.append((subject, body, some[0].commit_ts, some[-1].commit_ts))
    return found


def messages(txns: list[Txn], attempt: str, prev: int, *, stamped: bool = True) -> list[Message]:
    """As the Drainer publishes them, the marker last."""
    found: list[Message] = []
    for subject, body, first, last in bodies(txns):
        cuts = [body[at : at + FRAGMENT] for at in range(0, len(body), FRAGMENT)]
        for at, cut in enumerate(cuts):
            headers = {changes.H_ATTEMPT: attempt, changes.H_INDEX: str(len(found))}
            if stamped:
                headers |= {changes.H_FIRST_TS: str(first), changes.H_LAST_TS: str(last)}
            if len(cuts) > 1:
                headers[changes.H_FRAGMENT] = f"{at}/{len(cuts)}"
            found.append(Message(subject, cut, headers))
    marked = [MarkedTxn(txn.commit_ts, txn.commit_ts - 1, len(txn.rows)) for txn in txns]
    marker = Marker(attempt, len(found), prev, marked)
    return [*found, Message(subjects.changes_txn(FEED), _json(marker))]


def watermark(ts: int, prev: int) -> Message:
    return Message(subjects.changes_watermark(FEED), _json(Watermark(ts, prev)))


@st.composite
def histories(draw: st.DrawFn) -> list[Txn]:
    rows = st.lists(st.tuples(st.integers(0, 2), st.sampled_from([1, 50, 700])), max_size=6)
    txns = []
    for number in range(draw(st.integers(1, 12))):
        is_ddl = draw(st.booleans()) and draw(st.booleans())
        txns.append(Txn(10 * number + 10, [] if is_ddl else draw(rows), is_ddl))
    return txns


@st.composite
def streams(draw: st.DrawFn) -> list[Message | None]:
    """A history published, perhaps once more from somewhere before its end, cut into other batches;
    with attempts that were given up, lost messages, watermarks. None: reading begins anew."""
    history = draw(histories())
    found: list[Message | None] = []
    begin = 0
    for fill in range(draw(st.integers(1, 3))):
        at, prev = begin, history[begin - 1].commit_ts if begin else 0
        while at < len(history):
            size = draw(st.integers(1, 4))
            alone = [txn.ddl for txn in history[at : at + size]]
            size = alone.index(True) or 1 if True in alone else size
            batch, attempt = history[at : at + size], f"{fill}-{at}"
            made = messages(batch, attempt, prev, stamped=draw(st.booleans()))
            if draw(st.integers(0, 3)) == 0:
                found += made[: draw(st.integers(0, len(made) - 1))]
                restarted = draw(st.booleans())
                found += [None] if restarted else []
                made = messages(batch, attempt if restarted else attempt + "again", prev)
            if draw(st.integers(0, 30)) == 0:
                del made[draw(st.integers(0, len(made) - 1))]
            found += made
            prev = batch[-1].commit_ts
            if draw(st.integers(0, 3)) == 0:
                found.append(watermark(prev + draw(st.integers(0, 9)), prev))
            at += size
        begin = draw(st.integers(0, len(history) - 1))
        found.append(None)
    return found


def expected(stream: list[Message | None], position: int) -> tuple[Told, str]:
    told: Told = []
    assembler = ChangeAssembler(FEED, position)
    for message in stream:
        if message is None:
            assembler.restart()
            continue
        try:
            found = assembler.feed([message])
        except TidelogError as error:
            return told, f"{error!r}"
        for one in found:
            rows = [(m.db, m.table, m.schema_version, e) for m in one.rows for e in m.events]
            told.append((one.commit_ts, one.txns, rows, one.ddls))
    return told, ""


class Taken:
    """What the relay would hand on."""

    def __init__(self) -> None:
        self.told: Told = []
        self.pieces: list[Piece] = []
        self.largest = 0

    def take(self, item: Item) -> None:
        match item:
            case Moved(commit_ts):
                self.told.append((commit_ts, [], [], []))
            case Piece():
                if not item.number:
                    self.pieces = []
                assert item.number == len(self.pieces)
                assert not self.pieces or self.pieces[0].attempt == item.attempt
                self.pieces.append(item)
            case Whole():
                self._whole(item)

    def _whole(self, item: Whole) -> None:
        rows = item.rows
        if item.pieces:
            assert not rows
            assert item.pieces == len(self.pieces)
            assert self.pieces[0].attempt == item.attempt
            rows = [row for piece in self.pieces for row in piece.rows]
            self.largest = max(self.largest, item.pieces)
        named = set().union(item.tables, *(piece.tables for piece in self.pieces))
        found = []
        for body in rows:
            one = msgspec.json.decode(body, type=RowMessage)
            assert (one.db, one.table, one.schema_version) in named
            above = [event for event in one.events if event.commit_ts > item.after]
            found += [(one.db, one.table, one.schema_version, event) for event in above]
        ddls = [msgspec.json.decode(body, type=DdlMessage) for body in item.ddls]
        txns = [txn for txn in item.txns if txn.commit_ts > item.after]
        self.told.append((item.commit_ts, txns, found, ddls))


def taken(stream: list[Message | None], position: int, spill_bytes: int) -> tuple[Taken, str]:
    found = Taken()
    assembler = BatchAssembler(FEED, position, spill_bytes=spill_bytes, piece_bytes=400)
    for message in stream:
        if message is None:
            assembler.restart()
            continue
        try:
            items = assembler.feed([message])
        except TidelogError as error:
            return found, f"{error!r}"
        for item in items:
            found.take(item)
    return found, ""


@given(streams(), st.integers(0, 60), st.sampled_from([0, 500, 1500, 1 << 30]))
def test_it_says_what_the_change_assembler_says(
    stream: list[Message | None], position: int, spill_bytes: int
) -> None:
    found, error = taken(stream, position, spill_bytes)
    assert (found.told, error) == expected(stream, position)


def test_a_large_batch_comes_in_pieces_and_ddls_with_its_marker() -> None:
    txns = [Txn(10, [(0, 700)] * 20 + [(1, 700)] * 20)]
    found, _ = taken([*messages(txns, "a", 0)], 0, 500)
    assert found.largest > 1


def test_what_was_read_before_is_not_spilled_again() -> None:
    assembler = BatchAssembler(FEED, 10, spill_bytes=0)
    assert not assembler.feed(messages([Txn(10, [(0, 700)] * 20)], "a", 0))


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"db":1}'])
def test_a_body_that_is_none_of_ours_is_a_typed_stop(body: bytes) -> None:
    assembler = BatchAssembler(FEED, 0)
    made = messages([Txn(10, [(0, 7)])], "a", 0)
    with pytest.raises(UnparsablePayload):
        assembler.feed([msgspec.structs.replace(made[0], data=body)])


def test_what_is_missing_is_a_gap() -> None:
    with pytest.raises(Gap):
        BatchAssembler(FEED, 0).feed(messages([Txn(10, [(0, 7)])], "a", 5))


def test_rows_of_another_attempt_are_not_taken_for_those_that_are_lost() -> None:
    given_up = messages([Txn(10, [(0, 7)])], "a", 0)[:1]
    marker = messages([Txn(10, [(0, 8)])], "b", 0)[1:]
    with pytest.raises(Gap):
        BatchAssembler(FEED, 0).feed([*given_up, *marker])


def test_a_message_twice_is_none_for_another_that_is_lost() -> None:
    first, _, marker = messages([Txn(10, [(0, 7), (1, 7)])], "a", 0)
    with pytest.raises(Gap):
        BatchAssembler(FEED, 0).feed([first, first, marker])
