"""Patterns of wanted tables."""

from __future__ import annotations

import pytest

from tidelog.errors import BadInput
from tidelog_backfill.files.names import Names


@pytest.mark.parametrize(
    ("patterns", "name", "wanted"),
    [
        ((), "shop.orders", True),
        (("shop.orders",), "SHOP.Orders", True),
        (("shop.orders",), "shop.orders2", False),
        (("shop.*", "*.log_?"), "other.log_1", True),
        (("shop.*", "*.log_?"), "other.log_12", False),
        (("shop.a.b",), "shop.a.b", True),
    ],
)
def test_a_table_is_wanted_if_a_pattern_matches(
    patterns: tuple[str, ...], name: str, wanted: bool
) -> None:
    assert Names(patterns).wants(*name.split(".", 1)) is wanted


def test_a_schema_is_wanted_for_the_tables_that_may_be_in_it() -> None:
    names = Names(("shop.orders", "log*.x"))
    assert [names.wants_db(db) for db in ("shop", "logs", "other")] == [True, True, False]


@pytest.mark.parametrize("pattern", ["shop", "shop.", ".orders", "shop.[a"])
def test_what_names_no_table_is_refused(pattern: str) -> None:
    with pytest.raises(BadInput):
        Names((pattern,))
