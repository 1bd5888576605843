"""Bodies of row messages back into events by table."""

from __future__ import annotations

import msgspec
import pytest

from tests.unit.downstreams.shapes import table
from tidelog.changes import Event, RowMessage
from tidelog.downstream import TableRule
from tidelog.errors import UnparsablePayload
from tidelog.plan.decode import Decoded, key_of


def body(name: str, version: int, *commit_ts: int) -> bytes:
    events = [Event("c", ts, {"id": ts}, None, {"id": ts}) for ts in commit_ts]
    return msgspec.json.encode(RowMessage("d", name, version, events))


def shown(decoded: Decoded) -> list[tuple[str, int, list[int]]]:
    return [(key[1], key[2], [e.commit_ts for e in events]) for key, events in decoded.runs]


def test_a_tables_events_come_together_in_order() -> None:
    decoded = Decoded()
    for one in (body("t", 1, 1, 2), body("u", 1, 1), body("t", 1, 3), body("u", 1, 4)):
        decoded.add(one, 0)
    assert shown(decoded) == [("t", 1, [1, 2, 3]), ("u", 1, [1, 4])]
    assert decoded.rows == 5
    structures = {key: table(key[1]) for key in decoded.keys}
    rules = dict.fromkeys(decoded.keys, TableRule(True, True, ()))
    tables = decoded.with_rules(structures, rules)
    assert [(one.db, one.structure.name, len(one.events)) for one in tables] == [
        ("d", "t", 3),
        ("d", "u", 2),
    ]


def test_another_version_begins_anew_also_when_the_first_comes_back() -> None:
    decoded = Decoded()
    for one in (body("t", 2, 1), body("t", 1, 2), body("u", 1, 2), body("t", 2, 3)):
        decoded.add(one, 0)
    assert shown(decoded) == [("t", 2, [1]), ("t", 1, [2]), ("u", 1, [2]), ("t", 2, [3])]
    assert decoded.keys == {("d", "t", 2), ("d", "t", 1), ("d", "u", 1)}


def test_what_was_read_before_is_left_out() -> None:
    decoded = Decoded()
    decoded.add(body("t", 1, 1, 2, 3), 2)
    decoded.add(body("u", 1, 1, 2), 2)
    assert shown(decoded) == [("t", 1, [3])]
    assert decoded.rows == 1


def test_a_body_that_is_none_of_ours_is_refused() -> None:
    with pytest.raises(UnparsablePayload):
        Decoded().add(b'{"db":"d"}', 0)


def test_a_body_names_its_table_whatever_else_it_holds() -> None:
    assert key_of(body("t", 7, 1, 2)) == ("d", "t", 7)
    for wrong in (b"[", b'{"table":7}', b'{"db":"\xff"}', b'{"x":' + b"[" * 5000):
        with pytest.raises(UnparsablePayload, match=r"^a row message can't be read: "):
            key_of(wrong)
