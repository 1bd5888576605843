"""Shares of a window by lane."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.downstreams.shapes import column, created, deleted, table, updated
from tidelog.changes import Event
from tidelog.downstream import TableRule, TableShare
from tidelog.plan import window
from tidelog.plan.events import TableEvents
from tidelog.plan.window import Plan, Planner
from tidelog.schema.structure import KeyPart, KeyStructure, TableStructure

ID, U = (KeyPart("id"),), (KeyPart("u"),)
ONE_KEY = table("one", column("id", "bigint"), column("u", "bigint"), key=("id",))
TWO_KEYS = table(
    "two",
    *ONE_KEY.columns,
    key=("id",),
    keys=(KeyStructure("u", U, unique=True),),
)
NO_KEY = table("none", column("v", "bigint"))
PLAIN = TableRule(False, True, (ID,))
BOTH = TableRule(False, True, (ID, U))
KEPT = TableRule(False, False, (ID,))
ORDERED = TableRule(True, True, ())


def of(structure: TableStructure, rule: TableRule, *events: Event) -> TableEvents:
    return TableEvents("d", structure, rule, list(events))


def row(number: int, u: int = 0) -> dict[str, int]:
    return {"id": number, "u": u}


def lanes_of(plan: Plan | None, what: str = "inserts") -> dict[int, int]:
    """Key -> lane."""
    assert plan is not None
    return {
        image.row["id"]: lane
        for lane, shares in enumerate(plan)
        for share in shares
        for image in getattr(share, what)
    }


def event(commit_ts: int, v: int) -> Event:
    return Event("c", commit_ts, None, None, {"v": v})


def ordered(plan: Plan | None) -> list[TableShare]:
    assert plan is not None
    assert sum(map(bool, plan)) == 1
    return next(shares for shares in plan if shares)


def test_rows_of_one_key_are_spread_and_stay_in_their_lane() -> None:
    planner = Planner(4)
    rows = [created(row(n)) for n in range(40)]
    first = lanes_of(planner.plan(1, [of(ONE_KEY, PLAIN, *rows)]))
    assert len(set(first.values())) == 4
    gone = [deleted(row(n)) for n in range(40)]
    assert lanes_of(planner.plan(2, [of(ONE_KEY, PLAIN, *gone)]), "deletes") == first


@pytest.mark.parametrize(("structure", "rule"), [(ONE_KEY, PLAIN), (NO_KEY, ORDERED)])
def test_a_table_of_which_nothing_is_left_asks_for_nothing(
    structure: TableStructure, rule: TableRule
) -> None:
    """As where a replay ends within a batch."""
    assert Planner(2).plan(1, [of(structure, rule)]) == [[], []]


def test_a_row_follows_the_unique_value_that_it_gets() -> None:
    planner = Planner(4)
    first = lanes_of(planner.plan(1, [of(TWO_KEYS, BOTH, created(row(1, 7)))]))
    taken = [updated(row(1, 7), row(1, 8)), created(row(2, 7))]
    second = planner.plan(2, [of(TWO_KEYS, BOTH, *taken)])
    assert lanes_of(second)[2] == lanes_of(second, "updates")[1] == first[1]


def test_a_row_between_two_lanes_waits_for_a_flush() -> None:
    planner = Planner(4)
    rows = [created(row(n, n)) for n in range(8)]
    lanes = lanes_of(planner.plan(1, [of(TWO_KEYS, BOTH, *rows)]))
    other = next(n for n in lanes if lanes[n] != lanes[0])
    moved = [of(TWO_KEYS, BOTH, deleted(row(other, other)), updated(row(0, 0), row(0, other)))]
    assert planner.plan(2, moved) is None
    with pytest.raises(AssertionError, match="flush"):
        planner.plan(2, moved)
    planner.applied(1)
    again = planner.plan(2, moved)
    assert lanes_of(again, "updates").keys() == {0}
    assert lanes_of(again, "deletes").keys() == {other}


def test_keys_that_updates_link_go_in_one_lane_in_order() -> None:
    planner = Planner(4)
    events = [
        updated(row(1), row(2)),
        created(row(9)),
        updated(row(2), row(3)),
        created(row(1)),
        deleted(row(3)),
    ]
    plan = planner.plan(1, [of(ONE_KEY, KEPT, *events)])
    assert plan is not None
    linked = [share for shares in plan for share in shares if share.events]
    assert [share.events for share in linked] == [[e for e in events if e is not events[1]]]
    assert lanes_of(plan).keys() == {9}
    alone = Planner(1).plan(1, [of(ONE_KEY, KEPT, *events)])
    assert [share.events for share in ordered(alone)] == [events]


def test_events_in_order_tell_where_a_large_transaction_goes_on() -> None:
    planner = Planner(4)
    first = ordered(planner.plan(1, [of(NO_KEY, ORDERED, event(1, 1), event(2, 1), event(2, 2))]))
    second = ordered(planner.plan(2, [of(NO_KEY, ORDERED, event(2, 3))]))
    third = ordered(planner.plan(3, [of(NO_KEY, ORDERED, event(2, 4), event(3, 1))]))
    newer = table("none", column("v", "bigint"), version=2)
    last = [of(NO_KEY, ORDERED, event(3, 2)), of(newer, ORDERED, event(3, 3), event(4, 1))]
    fourth = ordered(planner.plan(4, last))
    fifth = ordered(planner.plan(5, [of(NO_KEY, ORDERED, event(4, 2))]))
    assert [s.offset for s in [*first, *second, *third, *fourth, *fifth]] == [0, 2, 3, 1, 2, 1]
    assert [e.after for e in first[0].events] == [{"v": 1}, {"v": 1}, {"v": 2}]


def test_a_table_that_is_another_one_now_begins_anew() -> None:
    planner = Planner(4)
    planner.plan(1, [of(NO_KEY, ORDERED, event(2, 1)), of(ONE_KEY, PLAIN, created(row(1)))])
    planner.applied(1)
    planner.forget(("d", "none"))
    planner.forget(("d", "nobody knows"))
    assert ordered(planner.plan(2, [of(NO_KEY, ORDERED, event(2, 2))]))[0].offset == 0


def test_other_lanes_in_the_middle_of_a_large_transaction() -> None:
    planner = Planner(4)
    planner.plan(1, [of(NO_KEY, ORDERED, event(2, 1)), of(ONE_KEY, PLAIN, created(row(1)))])
    planner.applied(1)
    planner.resize(2)
    assert ordered(planner.plan(2, [of(NO_KEY, ORDERED, event(2, 2))]))[0].offset == 1
    plan = planner.plan(3, [of(ONE_KEY, PLAIN, *[created(row(n)) for n in range(9)])])
    assert len(set(lanes_of(plan).values())) == 2


@given(st.lists(st.integers(1, 5), max_size=6), st.lists(st.integers(1, 4), max_size=20))
def test_offsets_are_places_in_the_transaction_however_it_is_cut(
    sizes: list[int], cuts: list[int]
) -> None:
    places = [(ts, place) for ts, size in enumerate(sizes, 1) for place in range(size)]
    planner = Planner(3)
    low = 0
    for window_number, size in enumerate([*cuts, len(places)]):
        part = places[low : low + size]
        low += size
        if part:
            one = of(NO_KEY, ORDERED, *[event(ts, place) for ts, place in part])
            (share,) = ordered(planner.plan(window_number, [one]))
            assert share.offset == part[0][1]
            assert [(e.commit_ts, e.after) for e in share.events] == [
                (ts, {"v": place}) for ts, place in part
            ]


def test_offsets_of_tables_that_are_not_abreast() -> None:
    """A piece has all of one table's transactions and the beginning of another's first."""
    other = table("other", column("v", "bigint"))
    planner = Planner(1)
    first = [of(NO_KEY, ORDERED, event(1, 1), event(2, 1)), of(other, ORDERED, event(1, 1))]
    planner.plan(1, first)
    late = [of(other, ORDERED, event(1, 2), event(2, 1)), of(NO_KEY, ORDERED, event(2, 2))]
    found = {s.structure.name: s.offset for s in ordered(planner.plan(2, late))}
    assert found == {"other": 1, "none": 1}


def test_offsets_of_a_table_that_becomes_ordered_within_a_window() -> None:
    newer = table("none", column("v", "bigint"), version=2)
    planner = Planner(1)
    planner.plan(1, [of(NO_KEY, PLAIN, created(row(1))), of(newer, ORDERED, event(2, 1))])
    assert ordered(planner.plan(2, [of(newer, ORDERED, event(2, 2))]))[0].offset == 1


def test_a_window_that_waited_for_a_flush_counts_its_events_once() -> None:
    planner = Planner(4)
    rows = [created(row(n, n)) for n in range(8)]
    lanes = lanes_of(planner.plan(1, [of(TWO_KEYS, BOTH, *rows)]))
    other = next(n for n in lanes if lanes[n] != lanes[0])
    moved = of(TWO_KEYS, BOTH, deleted(row(other, other)), updated(row(0, 0), row(0, other)))
    tables = [of(NO_KEY, ORDERED, event(2, 1)), moved]
    assert planner.plan(2, tables) is None
    planner.applied(1)
    assert planner.plan(2, tables) is not None
    assert ordered(planner.plan(3, [of(NO_KEY, ORDERED, event(2, 2))]))[0].offset == 1


def test_rows_at_two_versions_go_in_one_lane_one_version_after_the_other() -> None:
    planner = Planner(4)
    newer = table("one", *ONE_KEY.columns, key=("id",), version=2)
    rows = [created(row(n)) for n in range(8)]
    gone = [deleted(row(n)) for n in range(8)]
    mixed = [of(newer, PLAIN, *rows), of(ONE_KEY, PLAIN, *gone)]
    plan = planner.plan(1, mixed)
    assert [(len(s.inserts), len(s.deletes)) for s in ordered(plan)] == [(8, 0), (0, 8)]
    assert planner.plan(2, [of(newer, PLAIN, *rows)]) is None
    planner.applied(1)
    assert len(set(lanes_of(planner.plan(2, [of(newer, PLAIN, *rows)])).values())) == 4


def test_a_table_with_text_that_may_equal_anything_stays_in_one_lane() -> None:
    named = table("named", column("id", "varchar(9)", collation="utf8mb4_general_ci"), key=("id",))
    planner = Planner(4)
    plain = [of(named, PLAIN, *[created({"id": f"n{n}"}) for n in range(20)])]
    assert len(set(lanes_of(planner.plan(1, plain)).values())) > 1
    accented = [of(named, PLAIN, created({"id": "é"}), *plain[0].events)]
    assert planner.plan(2, accented) is None
    planner.applied(1)
    assert len(set(lanes_of(planner.plan(2, accented)).values())) == 1
    assert len(set(lanes_of(planner.plan(3, plain)).values())) == 1
    assert planner.one_lane() == ["d.named"]
    planner.applied(2)
    planner.applied(3)
    exact = table("named", column("id", "varchar(9)"), key=("id",), version=2)
    moved = [of(exact, PLAIN, *plain[0].events, *accented[0].events[:1])]
    assert len(set(lanes_of(planner.plan(4, moved)).values())) > 1
    assert planner.one_lane() == []


def test_one_lane_takes_everything_and_never_waits() -> None:
    planner = Planner(1)
    rows = [created(row(n, n)) for n in range(3)]
    for number in range(3):
        tables = [of(ONE_KEY, PLAIN, *rows), of(TWO_KEYS, BOTH, *rows)]
        assert len(ordered(planner.plan(number, tables))) == 2


def test_tables_are_forgotten_when_nothing_of_them_is_in_flight(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(window, "TABLES_KEPT", 2)
    planner = Planner(4)
    tables = [table(f"t{n}", *ONE_KEY.columns, key=("id",)) for n in range(5)]
    planner.plan(1, [of(tables[0], PLAIN, created(row(1)))])
    for number, structure in enumerate(tables[1:], 2):
        planner.plan(number, [of(structure, PLAIN, created(row(1)))])
        planner.applied(number)
    assert [name for _, name in planner._routes] == ["t0", "t4"]
