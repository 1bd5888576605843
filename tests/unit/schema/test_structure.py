"""The public structure of the recorded tables, against what TiDB itself shows."""

from __future__ import annotations

import msgspec
import pytest

from tests.fixtures.capture import SETS, Set, ddl_history, expected, table_infos
from tidelog.schema.history import TableAt
from tidelog.schema.structure import TableStructure, structure
from tidelog.schema.tracker import SchemaTracker


def structures(which: Set) -> dict[tuple[str, str], TableStructure]:
    return {
        (row.db, row.table): structure(TableAt(row.db, row.table, 1, row.info))
        for row in table_infos(which)
    }


@pytest.mark.parametrize("which", SETS)
def test_columns_and_types_are_what_tidb_shows(which: Set) -> None:
    found = structures(which)
    for wanted in expected(which):
        if wanted.type == "BASE TABLE":
            columns = found[wanted.db, wanted.table].columns
            # TiDB shows ZEROFILL in SHOW CREATE TABLE only.
            shown = [(c.name, c.type.removesuffix(" zerofill")) for c in columns]
            assert shown == [(name, text) for name, text in wanted.columns], wanted.table


@pytest.mark.parametrize("which", SETS)
def test_the_history_ends_in_the_same_structures(which: Set) -> None:
    tracker = SchemaTracker()
    tracker.add_jobs(ddl_history(which))
    for row in table_infos(which):
        at = tracker.table(row.info.id, tracker.version)
        assert (at.db, at.name) == (row.db, row.table)
        mine = structure(at)
        theirs = structure(TableAt(row.db, row.table, at.version, row.info))
        assert mine == theirs


@pytest.mark.parametrize("which", SETS)
def test_structures_survive_json(which: Set) -> None:
    for one in structures(which).values():
        encoded = msgspec.json.encode(one)
        assert msgspec.json.decode(encoded, type=TableStructure) == one


def test_kinds_and_definitions() -> None:
    found = structures("set-a")
    view, sequence = found["misc", "v2"], found["misc", "sq"]
    assert (view.kind, view.definition) == (
        "view",
        "SELECT `id` AS `id`,`a` AS `a` FROM `misc`.`d1`",
    )
    assert sequence.kind == "sequence"
    assert sequence.definition == (
        "start with 5 minvalue 1 maxvalue 9223372036854775806 increment by 10 cache 10 nocycle"
    )


def test_defaults_as_sql_sees_them() -> None:
    columns = {c.name: c for c in structures("set-a")["app", "defs"].columns}
    assert {n: (c.default, c.default_is_expr) for n, c in columns.items()} == {
        "id": (None, False),
        "a": ("5", False),
        "b": ("dv", False),
        "c": ("CURRENT_TIMESTAMP", True),
        "d": ("CURRENT_TIMESTAMP", True),
        "e": ("1.25", False),
        "f": ("b'101'", True),
        "g": ("y", False),
        "h": ("2020-01-01", False),
    }
    assert columns["d"].on_update_now
    assert not columns["id"].nullable
    added = {c.name: c for c in structures("set-a")["app", "conc"].columns}["f"]
    assert (added.default, added.origin_default) == (
        "CURRENT_TIMESTAMP(3)",
        "2026-11-21 10:19:35.009",
    )


def test_keys() -> None:
    found = structures("set-a")
    keys = found["app", "pk_comp"].keys
    assert keys[0].name == "PRIMARY"
    assert (keys[0].primary, keys[0].unique) == (True, True)
    assert found["app", "pk_comp"].key_columns == keys[0].columns == ("a", "b", "c", "d")
    assert found["app", "uk"].key_columns == (), "both unique keys are nullable"
    assert found["app", "uknn"].key_columns == ("a", "b")
    (expression,) = (key for key in found["app", "expridx"].keys if not key.primary)
    assert expression.parts[0].expression == "lower(`name`)"
    assert expression.columns == ("",)
    generated = {c.name: c for c in found["app", "gen"].columns}
    assert (generated["b"].generated, generated["b"].generated_stored) == ("`a` * 2", False)
    assert generated["c"].generated_stored
