"""A relay's plan comes to what the Applier does batch by batch, wherever it is cut or goes on."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.backfill.logs import Batch, Log, ddl
from tidelog.changes import DdlMessage, DdlTable
from tidelog.downstreams.operations import Drop, DropDatabase, operations
from tidelog.errors import BadInput, Corrupt
from tidelog.relay import RelayGap
from tidelog.schema.structure import TableStructure
from tidelog_backfill.replay.outline import position_after
from tidelog_backfill.replay.planning import plan
from tidelog_backfill.replay.wanted import Wanted


@st.composite
def logs(draw: st.DrawFn) -> Log:
    batches: list[Batch] = []
    ts = begins = draw(st.integers(0, 3))
    known: list[int] = []
    for version in range(1, draw(st.integers(2, 13))):
        ts += draw(st.integers(1, 3))
        kind = draw(st.sampled_from(("rows", "rows", "rows", "large", "ddl", "early", "again")))
        rows = draw(st.integers(1, 4))
        if kind == "ddl":
            batches.append(Batch(ts, ddls=(ddl(ts, version),)))
            known.append(version)
        elif kind == "early":
            batches.append(Batch(ts, rows, (ddl(ts, version, early=True),)))
            known.append(version)
        elif kind == "again" and known:
            batches.append(Batch(ts, ddls=(ddl(ts, known.pop()),)))
        else:
            batches.append(Batch(ts, rows, pieces=rows if kind == "large" else 0))
    return Log(batches, draw(st.lists(st.integers(0, 20))), begins)


@given(logs(), st.integers(0, 40), st.integers(0, 40), st.sampled_from((10, 30, 1 << 30)))
def test_a_plan_is_what_the_applier_does(log: Log, one: int, other: int, size: int) -> None:
    after, until = max(log.begins, min(one, other)), max(one, other, log.begins)
    made = plan(log.facts(), Wanted(after_ts=after, until_ts=until, segment_bytes=size))
    assert log.done(made) == log.expected(after, until)
    assert made.begins == log.begins
    times = [segment.commit_ts for segment in made.segments]
    assert times == sorted(times)
    assert made.until == max(after, min(until, log.batches[-1].commit_ts))
    assert not times or times[-1] == made.until
    for segment in made.segments:
        (span,) = segment.view.spans
        assert span.after_ts < span.until_ts or not segment.chunks, "a job that has nothing to do"


@given(logs(), st.data())
def test_a_replay_that_was_interrupted_goes_on_with_the_same_segments(
    log: Log, data: st.DataObject
) -> None:
    facts = log.facts()
    size = data.draw(st.sampled_from((10, 30, 1 << 30)))
    whole = plan(facts, Wanted(segment_bytes=size))
    at = data.draw(st.integers(0, len(whole.segments)))
    done = [one.schema_version for s in whole.segments[:at] for one in s.ddls]
    after = whole.segments[at - 1].commit_ts if at else whole.begins
    ddls = []
    if at < len(whole.segments):
        ddls = whole.segments[at].ddls[: data.draw(st.integers(0, 3))]
        done += [one.schema_version for one in ddls]
        after = position_after(ddls[-1]) if ddls else after
    again = plan(facts, Wanted(after_ts=after, ddls_done=tuple(done), segment_bytes=size))
    left = whole.segments[at:]
    rest = log.done(msgspec.structs.replace(whole, segments=left))
    assert log.done(again) == rest[len(ddls) :]
    assert [segment.number for segment in again.segments] == [
        segment.number for segment in left if segment.chunks or segment.ddls[-1].commit_ts > after
    ]
    for segment in again.segments:
        before = next(one for one in left if one.number == segment.number)
        assert segment.view == before.view
        assert segment.chunks == before.chunks


def test_a_segment_has_the_structures_of_its_rows() -> None:
    log = Log([Batch(1, 1), Batch(2, ddls=(ddl(2, 3),)), Batch(3, 1)])
    made = plan(log.facts(), Wanted())
    assert [list(segment.structures) for segment in made.segments] == [["shop.orders.7"]] * 2


def test_what_is_done_or_not_wanted_has_no_structures() -> None:
    rows = [Batch(ts, 1) for ts in range(1, 10)]
    log = Log([*rows, Batch(10, ddls=(ddl(10, 8),)), Batch(11, 1)])
    made = plan(log.facts(), Wanted(after_ts=5, segment_bytes=20))
    assert [segment.view.spans[0].until_ts for segment in made.segments] == [9, 11]
    assert [list(segment.structures) for segment in made.segments] == [["shop.orders.7"]] * 2
    other = plan(log.facts(), Wanted(tables=("shop.others",)))
    assert not any(segment.structures for segment in other.segments)


def test_rows_without_their_structure_stop_unless_damage_is_skipped() -> None:
    (facts,) = Log([Batch(1, 1)]).facts()
    lacking = [msgspec.structs.replace(facts, structures=[])]
    with pytest.raises(Corrupt, match="structure of"):
        plan(lacking, Wanted())
    made = plan(lacking, Wanted(on_corrupt="skip"))
    assert "shop.orders.7" in made.warnings[0]
    assert made.segments[0].view.lacking == {"shop.orders.7"}


def test_bytes_that_were_skipped_are_told() -> None:
    (facts,) = Log([Batch(1, 1)]).facts()
    damaged = [msgspec.structs.replace(facts, skipped=number) for number in (3, 4)]
    made = plan(damaged, Wanted(on_corrupt="skip"))
    assert made.skipped_bytes == 7
    assert "7 damaged bytes" in made.warnings[0]


def test_a_gap_stops_unless_nothing_of_it_is_wanted() -> None:
    first, second = Log([Batch(1, 1), Batch(2, 1)]), Log([Batch(8, 1), Batch(9, 1)], begins=5)
    facts = first.facts() + second.facts()
    with pytest.raises(RelayGap, match="after 2 up to 5"):
        plan(facts, Wanted())
    with pytest.raises(RelayGap, match="after 3 up to 5"):
        plan(facts, Wanted(after_ts=3))
    plan(facts, Wanted(until_ts=2))
    plan(facts, Wanted(after_ts=5))
    plan(facts, Wanted(on_corrupt="skip"))


def test_what_the_logs_begin_behind_is_a_gap_for_a_checkpoint_before_it() -> None:
    facts = Log([Batch(8, 1)], begins=5).facts()
    with pytest.raises(RelayGap):
        plan(facts, Wanted(after_ts=4))
    assert plan(facts, Wanted()).begins == 5


def test_ddls_of_tables_that_are_not_wanted_are_left_out() -> None:
    log = Log(
        [
            Batch(1, ddls=(ddl(1, 1),)),
            Batch(2, ddls=(ddl(2, 2, table="others"),)),
            Batch(3, 1),
        ]
    )
    made = plan(log.facts(), Wanted(tables=("shop.orders",)))
    assert log.done(made) == ["ddl 1", "row 3"]
    assert made.segments[0].view.only == ("shop.orders",)


def test_a_rename_into_what_is_not_wanted_is_refused() -> None:
    alter = ddl(1, 1)
    (table,) = alter.tables
    away = msgspec.structs.replace(table, db_after="other")
    rename = msgspec.structs.replace(alter, kind="rename_table", tables=[away])
    facts = Log([Batch(1, ddls=(rename,))]).facts()
    with pytest.raises(BadInput, match="others that are not"):
        plan(facts, Wanted(tables=("shop.*",)))
    assert len(plan(facts, Wanted(tables=("shop.*", "other.*"))).segments) == 1


@pytest.mark.parametrize(
    ("tables", "gone"),
    [
        ((), ["copy.x", "other.u", "copy"]),
        (("copy.*",), ["copy.x", "copy"]),
        (("other.u",), ["other.u"]),
        (("copy.x", "other.*"), ["copy.x", "other.u", "copy"]),
        (("third.*",), []),
    ],
)
def test_a_dropped_schema_takes_no_table_elsewhere_that_is_not_wanted(
    tables: tuple[str, ...], gone: list[str]
) -> None:
    """Routes have it there; the operator named others, and its rows are to stay."""
    dropped = [
        DdlTable(db, "", TableStructure(table, 1), None)
        for db, table in (("copy", "x"), ("other", "u"))
    ]
    drop = DdlMessage(2, "DROP DATABASE `copy`", "drop_schema", "copy", 2, None, dropped)
    log = Log([Batch(1, 1), Batch(2, ddls=(drop,)), Batch(3, 1)])
    made = plan(log.facts(), Wanted(tables=tables))
    found = [one for segment in made.segments for told in segment.ddls for one in operations(told)]
    assert [
        f"{one.db}.{one.structure.name}" if isinstance(one, Drop) else one.db
        for one in found
        if isinstance(one, Drop | DropDatabase)
    ] == gone
