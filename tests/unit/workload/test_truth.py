"""Outcomes, digests and the comparison: what the checks of others rest on."""

from __future__ import annotations

import asyncio

import pytest

from tidelog.rows.values import T_DECIMAL, T_DOUBLE, T_FLOAT, T_JSON, T_LONG, T_VARCHAR
from tidelog.schema.model import ColumnInfo, FieldType, Name
from tidelog.workload import compare, digest
from tidelog.workload.compare import comparable
from tidelog.workload.outcomes import Outcomes
from tidelog.workload.source import Contents, TableContents


def test_a_forced_question_rolls_an_open_transaction_back_for_good() -> None:
    outcomes = Outcomes()
    outcomes.begin(5)
    assert outcomes.verdict(5, force=False).state == "undecided"
    assert outcomes.verdict(5, force=True).state == "rolled_back"
    assert not outcomes.commit(5, 9)
    assert outcomes.verdict(5, force=False).state == "rolled_back"


def test_a_commit_is_never_forced_away() -> None:
    outcomes = Outcomes()
    outcomes.begin(5)
    assert outcomes.commit(5, 9)
    verdict = outcomes.verdict(5, force=True)
    assert (verdict.state, verdict.commit_ts) == ("committed", 9)


def test_transactions_of_an_earlier_run_stay_undecided() -> None:
    outcomes = Outcomes()
    outcomes.first_ts = 100
    assert outcomes.verdict(99, force=True).state == "undecided"
    assert outcomes.verdict(100, force=True).state == "rolled_back"


def test_transactions_of_runs_that_are_over_are_rolled_back() -> None:
    outcomes = Outcomes()
    outcomes.inherited_ts, outcomes.first_ts = 50, 100
    assert outcomes.verdict(49, force=True).state == "undecided", "another directory's"
    assert outcomes.verdict(50, force=False).state == "rolled_back"
    assert outcomes.verdict(100, force=False).state == "undecided", "our own: its client lives"


def test_the_dead_are_unasked_until_a_pump_was_told() -> None:
    outcomes = Outcomes()
    outcomes.begin(5)
    outcomes.abandon(5)
    outcomes.verdict(5, force=False)
    assert outcomes.unasked() == 1, "undecided is no answer"
    outcomes.roll_back(5)
    outcomes.verdict(5, force=False)
    assert outcomes.unasked() == 0


def test_digests_ignore_order_and_see_values() -> None:
    one = ("d", "t", "c", None, {"a": 1, "b": 2.0})
    two = ("d", "t", "d", {"a": 1}, None)
    assert digest([one, two]) == digest([two, ("d", "t", "c", None, {"b": 2, "a": 1})])
    assert digest([one]) != digest([one, one])
    assert digest([one]) != digest([("d", "t", "c", None, {"a": 1, "b": 3})])


def column(name: str, tp: int) -> ColumnInfo:
    return ColumnInfo(1, Name(name, name), 0, FieldType(tp))


@pytest.mark.parametrize(
    ("tp", "one", "other", "equal"),
    [
        (T_DECIMAL, "1.50", "1.5", True),
        (T_DECIMAL, "-0.0000", "0", True),
        (T_DECIMAL, "1.50", "1.51", False),
        (T_DECIMAL, f"{'9' * 35}.{'1' * 30}", f"{'9' * 35}.{'1' * 29}2", False),
        (T_FLOAT, 1.1, 1.10000002, True),
        (T_FLOAT, 1.1, 1.1001, False),
        (T_DOUBLE, 1.1, 1.1000000000000003, False),
        (T_JSON, {"a": [1.0]}, {"a": [1]}, True),
        (T_JSON, {"a": None}, {}, False),
        (T_LONG, 7, "7", True),
        (T_VARCHAR, "a", "A", False),
        (T_VARCHAR, None, "", False),
    ],
)
def test_values_compare_as_the_fixtures_say(
    tp: int, one: object, other: object, equal: bool
) -> None:
    info = column("c", tp)
    assert (comparable(info, one) == comparable(info, other)) is equal


def test_differences_are_named() -> None:
    columns = [column("a", T_LONG)]
    source = Contents(
        9,
        [
            TableContents("d", "same", columns, [{"a": 1}, {"a": 1}]),
            TableContents("d", "less", columns, [{"a": 1}, {"a": 1}]),
            TableContents("d", "gone", columns, []),
            TableContents("d", "wide", columns, [{"a": 1}]),
        ],
    )
    there: dict[str, list[dict[str, object]]] = {
        "same": [{"a": 1}, {"a": 1}],
        "less": [{"a": 1}],
        "wide": [{"a": 1, "b": 2}],
    }

    async def fetch(db: str, table: str) -> list[dict[str, object]]:
        return there[table]

    verdict = asyncio.run(compare(source, fetch))
    assert not verdict.equal
    assert verdict.differences == [
        'd.less: missing: {"a":"1"} (1 times)',
        "d.gone: the table is missing",
        "d.wide: columns ['a', 'b'] instead of ['a']",
    ]


def test_a_decimal_that_is_none_differs_from_every_number() -> None:
    price = ColumnInfo(1, Name("p", "p"), 0, FieldType(T_DECIMAL, 0))
    assert comparable(price, "1.50") == comparable(price, "1.5") == "1.5"
    assert comparable(price, "-0.00") == "0"
    assert comparable(price, "one and a half") == "one and a half"
