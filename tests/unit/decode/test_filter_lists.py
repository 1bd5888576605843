"""Allow and block lists, and events of rules, as tables."""

from __future__ import annotations

import pytest

from tidelog.decode.config import DecodeConfig
from tidelog.filter.events import EventRule
from tidelog.filter.filters import Filters
from tidelog.filter.settings import BinlogFilterRule, TableName
from tidelog.schema.jobs import KIND_NAMES

PEER = Filters(
    DecodeConfig(
        replicate_do_db=("~^do_start.*", "do_name"),
        replicate_do_table=(
            TableName("test", "do_name"),
            TableName("test", "do_ignore_name"),
            TableName("test", "~^do_start.*"),
        ),
        ignore_table=(TableName("test", "do_ignore_name"),),
    )
)
"""The filter scenario of the original (appendix C.3)."""


@pytest.mark.parametrize(
    ("db", "table", "reason"),
    [
        ("do_start1", "", ""),
        ("do_start1", "any", ""),
        ("DO_NAME", "t", ""),
        ("do_not_start1", "", "filter"),
        ("do_not_name", "t", "filter"),
        ("test", "", ""),
        ("test", "do_start1", ""),
        ("TEST", "Do_Name", ""),
        ("test", "do_not_start1", "filter"),
        ("test", "do_not_name", "filter"),
        ("test", "do_ignore_name", "filter"),
        ("test", "do_name2", "filter"),
        ("mysql", "user", "system"),
        ("Mysql", "", "system"),
    ],
)
def test_the_peer_s_lists(db: str, table: str, reason: str) -> None:
    assert PEER.table(db, table).reason == reason


def test_the_block_list_wins_over_the_allow_list() -> None:
    both = Filters(DecodeConfig(replicate_do_db=("app", "log"), ignore_schemas=("LOG", "~tmp.*")))
    assert both.table("app", "t").reason == ""
    assert both.table("log", "t").reason == "filter"
    assert "ignore-schemas 'LOG'" in both.table("log", "t").why
    assert Filters(DecodeConfig(ignore_schemas=("~tmp.*",))).table("mysql", "x").reason == ""


def test_a_table_of_the_block_list_leaves_its_schema() -> None:
    filters = Filters(DecodeConfig(ignore_table=(TableName("app", "~.*"),)))
    assert filters.table("app", "").reason == ""
    assert filters.table("app", "t").reason == "filter"


@pytest.mark.parametrize(
    ("event", "kinds"),
    [
        ("truncate table", {"truncate_table"}),
        ("Truncate_Table", {"truncate_table"}),
        ("add column", {"add_column", "add_columns"}),
        ("create database", {"create_schema"}),
        ("drop  table", {"drop_table"}),
        ("create index", {"add_index", "add_primary_key"}),
        ("multi schema change", {"multi_schema_change"}),
        ("all dml", set()),
        ("none", set()),
        ("all", set(KIND_NAMES.values())),
    ],
)
def test_events_by_name(event: str, kinds: set[str]) -> None:
    rule = EventRule("r", BinlogFilterRule(ignore_event=(event,)))
    assert {kind for kind in KIND_NAMES.values() if rule.ignores(kind, "")} == kinds
    assert bool(rule.rows) == (event in ("all dml", "all"))


def test_alter_table_is_every_change_of_a_table_that_stays() -> None:
    rule = EventRule("r", BinlogFilterRule(ignore_event=("alter table",)))
    for kind in ("add_column", "drop_index", "rename_index", "drop_partition", "add_partition"):
        assert rule.ignores(kind, ""), kind
    assert rule.ignores("multi_schema_change", ""), "one with several actions"
    for kind in ("create_table", "drop_table", "truncate_table", "rename_table", "rename_tables"):
        assert not rule.ignores(kind, ""), kind
    for kind in ("create_schema", "modify_schema_charset", "drop_view", "create_resource_group"):
        assert not rule.ignores(kind, ""), kind
    for kind in ("alter_sequence", "alter_placement_policy", "alter_resource_group"):
        assert not rule.ignores(kind, ""), kind
