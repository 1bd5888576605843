"""Chunk by chunk, part by part, the downstream comes out as in upstream order."""

from __future__ import annotations

from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.backfill.parts import chunks, planned, routed, sent, write
from tests.unit.downstreams.shapes import column, table
from tests.unit.plan.test_interleavings import CHOICE, history
from tests.unit.plan.toy import Downstream, Step, Toy
from tidelog.changes import Event, RowMessage
from tidelog.downstream import Image, TableRule
from tidelog.errors import Stopped, UnparsablePayload
from tidelog.plan.fold import fold
from tidelog.schema.structure import KeyPart, KeyStructure
from tidelog_backfill.files.chunk import Body
from tidelog_backfill.replay.bundles import PUT, Change, unpacked
from tidelog_backfill.replay.gather import gathered
from tidelog_backfill.replay.routing import routing
from tidelog_backfill.replay.shuffle import Shuffler
from tidelog_backfill.replay.works import Works

EXAMPLES = 800
TOYS = st.builds(Toy, st.integers(1, 3), st.booleans())
INT = Toy(1, False)
ALL = 1 << 62


@settings(max_examples=EXAMPLES)
@given(CHOICE, TOYS, st.integers(1, 4))
def test_a_segment_comes_to_the_serial_end(rng: Random, toy: Toy, parts: int) -> None:
    before, events, upstream = history(rng, toy)
    downstream = Downstream(toy, before)
    write(rng, downstream, planned(rng, toy, chunks(rng, events), parts, 0, ALL))
    assert downstream.shown() == Downstream(toy, upstream.rows).shown()


@settings(max_examples=EXAMPLES)
@given(CHOICE, TOYS, st.integers(1, 4))
def test_a_second_attempt_in_other_segments_comes_to_the_same(
    rng: Random, toy: Toy, parts: int
) -> None:
    before, events, upstream = history(rng, toy)
    downstream = Downstream(toy, before)
    log = chunks(rng, events)
    write(rng, downstream, planned(rng, toy, log, parts, 0, ALL), rng.random())
    middle = rng.randint(0, events[-1].commit_ts if events else 0)
    for after, until in ((0, middle), (middle, ALL)):
        write(rng, downstream, planned(rng, toy, log, rng.randint(1, 4), after, until))
    assert downstream.shown() == Downstream(toy, upstream.rows).shown()


@settings(max_examples=EXAMPLES)
@given(CHOICE, st.booleans(), st.integers(1, 4))
def test_rows_that_may_not_be_replaced_keep_what_only_the_downstream_has(
    rng: Random, text: bool, parts: int
) -> None:
    toy = Toy(1, text, replaceable=False)
    before, events, _ = history(rng, toy)
    serial, downstream = Downstream(toy, before), Downstream(toy, before)
    for event in events:
        serial.write(Step("event", event.before or {}, event.after or {}, False))
    write(rng, downstream, planned(rng, toy, chunks(rng, events), parts, 0, ALL))
    assert downstream.shown() == serial.shown()


@settings(max_examples=EXAMPLES)
@given(CHOICE, st.booleans(), st.booleans(), st.integers(1, 4))
def test_rows_end_where_they_are_told(
    rng: Random, text: bool, replaceable: bool, parts: int
) -> None:
    toy = Toy(1, text, replaceable=replaceable)
    before, events, _ = history(rng, toy)
    until = rng.randint(0, events[-1].commit_ts if events else 0)
    serial, downstream = Downstream(toy, before), Downstream(toy, before)
    for event in events:
        if event.commit_ts <= until:
            serial.write(Step("event", event.before or {}, event.after or {}, False))
    write(rng, downstream, planned(rng, toy, chunks(rng, events), parts, 0, until))
    assert downstream.shown() == serial.shown()


@settings(max_examples=EXAMPLES)
@given(CHOICE, st.integers(1, 4))
def test_what_is_left_of_keys_is_what_the_applier_folds(rng: Random, parts: int) -> None:
    toy = Toy(3, False)
    _, events, _ = history(rng, toy)
    route = routed(toy, parts)
    puts: list[Image] = []
    deletes: list[Image] = []
    for rows in sent(rng, chunks(rng, events), route, 0, ALL):
        for shares in Works(route, 100).of(gathered(rows, route.spread, set())):
            puts += [image for share in shares for image in share.updates]
            deletes += [image for share in shares for image in share.deletes]
    net = fold(events, ["id"], safe=True)
    put = {image.row["id"]: image.row for image in (*net.inserts, *net.updates)}
    assert {image.row["id"]: image.row for image in puts} == put
    gone = {image.row["id"] for image in net.deletes}
    assert {image.row["id"] for image in deletes} == gone - put.keys()


def body(*events: Event, table: str = "t", version: int = 1) -> Body:
    return Body(msgspec.json.encode(RowMessage("d", table, version, list(events))), 0)


def put(number: int, commit_ts: int, **more: int) -> Event:
    return Event("c", commit_ts, {"id": number}, None, {"id": number} | more)


def taken(shuffler: Shuffler) -> list[Change]:
    return [change for bundle in shuffler.take() for change in unpacked(bundle)]


def test_a_hot_key_is_sent_once() -> None:
    shuffler = Shuffler(routed(INT, 4), 0, ALL)
    for commit_ts in range(1, 1000):
        shuffler.add(body(put(7, commit_ts, v=commit_ts)))
    (found,) = taken(shuffler)
    assert (found.kind, found.commit_ts, shuffler.events) == (PUT, 999, 999)
    assert msgspec.json.decode(found.payload) == {"id": 7, "v": 999}
    assert not list(shuffler.take())


def test_neighbours_are_written_by_one_part() -> None:
    route = msgspec.structs.replace(routed(INT, 4), block_bits=9)
    parts = [route.slot(number) for number in range(-(1 << 14), 1 << 14)]
    blocks = [set(parts[at : at + 512]) for at in range(0, len(parts), 512)]
    assert all(len(block) == 1 for block in blocks)
    counts = [parts.count(part) for part in range(4)]
    assert max(counts) < 2 * min(counts)


def test_ids_of_a_time_and_a_worker_are_spread() -> None:
    """Their low bits are alike."""
    route = routed(INT, 4, buckets=8)
    slots = [route.slot((1_700_000_000_000 + at) << 22 | 7 << 12) for at in range(32_000)]
    counts = [slots.count(slot) for slot in range(32)]
    assert max(counts) < 2 * min(counts)


def test_what_lies_outside_the_span_or_was_in_another_batch_is_left_out() -> None:
    shuffler = Shuffler(routed(INT, 1), 10, 20)
    events = [put(number, number) for number in (10, 11, 12, 20, 21)]
    shuffler.add(msgspec.structs.replace(body(*events), after=11))
    assert [one.commit_ts for one in taken(shuffler)] == [12, 20]


def test_rows_without_a_key_go_in_order_to_one_part() -> None:
    structure = table("t", column("id", "bigint"))
    route = routing([("d", structure, TableRule(True, True, ()))], 4)
    shuffler = Shuffler(route, 0, ALL)
    events = [Event("c", commit_ts, None, None, {"id": 1}) for commit_ts in (5, 5, 6)]
    shuffler.add(body(*events))
    found = list(shuffler.take())
    assert [(one.part, one.commit_ts) for one in found] == [(route.home(0), ts) for ts in (5, 6)]
    (_, first), (_, second) = gathered([*found, *found[1:]], route.spread, set())
    assert [one.seq for one in (*first, *second)] == [0, 1, 2]


def test_it_is_full_by_keys_and_not_by_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidelog_backfill.replay.shuffle.HELD_ROWS", 3)
    shuffler = Shuffler(routed(INT, 1), 0, ALL)
    shuffler.add(body(*(put(1, commit_ts) for commit_ts in range(1, 9)), put(2, 9)))
    full = [shuffler.is_full]
    shuffler.add(body(put(3, 10)))
    full.append(shuffler.is_full)
    list(shuffler.take())
    assert [*full, shuffler.is_full] == [False, True, False]


def test_zeros_are_one_key() -> None:
    structure = table("t", column("x", "double"), key=("x",))
    route = routing([("d", structure, TableRule(False, True, ((KeyPart("x"),),)))], 4)
    shuffler = Shuffler(route, 0, ALL)
    for number, zero in enumerate((0.0, -0.0), 1):
        shuffler.add(body(Event("c", number, {"x": zero}, None, {"x": zero})))
        (found,) = shuffler.take()
        (change,) = unpacked(found)
        assert (found.part, change.key) == (route.home(0), b'{"x":0.0}')


def test_versions_with_other_keys_go_in_order_and_those_with_the_same_by_key() -> None:
    one = INT.structure
    same = msgspec.structs.replace(one, version=2)
    key = KeyStructure("PRIMARY", (KeyPart("a"),), True, True)
    other = msgspec.structs.replace(one, version=3, keys=(key,), key_columns=("a",))
    rule, by_a = INT.rule, TableRule(False, True, ((KeyPart("a"),),))
    assert routing([("d", one, rule), ("d", same, rule)], 2).spread == [True]
    assert routing([("d", one, rule), ("d", other, by_a)], 2).spread == [False]
    assert routing([("d", one, rule)], 2, [("d", "t")]).spread == [False]
    assert routing([("d", one, TableRule(True, True, rule.keys))], 2).spread == [False]


def test_rows_of_a_table_nobody_knows_stop_and_so_does_what_is_no_body() -> None:
    shuffler = Shuffler(routed(INT, 1), 0, ALL)
    with pytest.raises(Stopped, match=r"d\.other at version 1"):
        shuffler.add(body(put(1, 1), table="other"))
    with pytest.raises(UnparsablePayload):
        shuffler.add(Body(b'{"db":1}', 0))
