"""A server's word on a table's keys."""

from __future__ import annotations

from tidelog_backfill.snapshot.structures import left_out, table

KEYS = [
    ("PRIMARY", 0, "id", None, "BTREE"),
    ("by_sum", 1, "a", None, "BTREE"),
    ("by_sum", 1, None, None, "BTREE"),
    ("by_text", 1, "note", None, "FULLTEXT"),
    ("by_two", 1, "a", 10, "BTREE"),
    ("by_two", 1, "b", None, "BTREE"),
    ("place", 1, "at", 32, "SPATIAL"),
]


def test_a_key_is_copied_or_said_to_be_left_out() -> None:
    made = table("t", [], KEYS, [], collation="utf8mb4_bin", comment="")
    assert [(key.name, key.columns) for key in made.keys] == [
        ("PRIMARY", ("id",)),
        ("by_two", ("a", "b")),
    ]
    assert left_out(KEYS) == [
        "the key by_sum (an expression)",
        "the key by_text (FULLTEXT)",
        "the key place (SPATIAL)",
    ]
