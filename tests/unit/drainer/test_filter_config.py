"""What a wrong configuration of filters says, and a right one as it stands in a file."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from tidelog.config import load
from tidelog.errors import ConfigError
from tidelog.filter.filters import Filters
from tidelog.rows.table_codec import DELETE
from tidelog.sim.world import World, run
from tidelog_drainer.config import DrainerConfig
from tidelog_drainer.service import build

ROOT = Path(__file__).parents[3]

BINLOGFILTER = """
[[table-migrate-rule]]
binlog-filter-rule = ["truncate-table-filter", "add-column-aaa-filter", "delete-filter"]
source = { schema = "do_not_truncate_database*", table = "do_not_truncate_table*" }

[[table-migrate-rule]]
source = { schema = "shard_*", table = "t_*" }
target = { schema = "shop", table = "t" }

[[replicate-do-table]]
db-name = "~.*"
tbl-name = "~^do.*|t_.*"

[binlog-filter-rule.truncate-table-filter]
ignore-event = ["truncate table"]

[binlog-filter-rule.add-column-aaa-filter]
ignore-sql = ["alter table .* add column aaa int"]

[binlog-filter-rule.delete-filter]
ignore-event = ["delete"]
"""


def loaded(directory: Path, text: str) -> DrainerConfig:
    path = directory / "drainer.toml"
    path.write_text(text, encoding="utf-8")
    return load(DrainerConfig, "drainer", ["--config", str(path)], {})


def test_the_original_s_tables_are_read(tmp_path: Path) -> None:
    filters = Filters(loaded(tmp_path, BINLOGFILTER))
    db, table = "do_not_truncate_database1", "do_not_truncate_table1"
    verdict = filters.table(db, table)
    assert (verdict.reason, set(verdict.ignored_rows)) == ("", {DELETE})
    asked = [
        ("truncate_table", "TRUNCATE TABLE x"),
        ("add_column", "ALTER TABLE x ADD COLUMN aaa INT"),
        ("add_column", "ALTER TABLE x ADD COLUMN bbb INT"),
    ]
    assert [filters.event_filter(db, table, *one) for one in asked] == [
        "truncate-table-filter",
        "add-column-aaa-filter",
        "",
    ]
    target = filters.table("SHARD_1", "T_1").target
    assert (target.db, target.table, target.merged) == ("shop", "t", True)
    assert filters.table("shop", "other").reason == "filter"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('replicate-do-db = ["~("]', "replicate-do-db: '\\(' is no regular expression"),
        ('ignore-schemas = [""]', "ignore-schemas: a name or ~REGEXP is expected"),
        ('[[ignore-table]]\ndb-name = "a"', "tbl-name"),
        ('[[ignore-table]]\ndb-name = "a"\ntbl-name = "b"\ntable = "c"', "table"),
        (
            '[binlog-filter-rule.r]\nignore-event = ["deletes"]',
            "binlog-filter-rule r: ignore-event: there is no event 'deletes'; .*'delete'",
        ),
        ('[binlog-filter-rule.r]\nignore-sql = ["["]', "binlog-filter-rule r: ignore-sql: '\\['"),
        (
            '[[table-migrate-rule]]\nsource = {schema = "a"}\nbinlog-filter-rule = ["x"]',
            "table-migrate-rule 1: there is no binlog-filter-rule 'x'; known: none",
        ),
        ('[[table-migrate-rule]]\nsource = {schema = "a"}', "neither a target nor"),
        (
            '[[table-migrate-rule]]\nsource = {table = "a"}\ntarget = {table = "b"}',
            "source.schema is empty",
        ),
        (
            '[[table-migrate-rule]]\nsource = {schema = "a"}\ntarget = {table = "b"}',
            "a target.table needs a source.table",
        ),
        (
            '[[table-migrate-rule]]\nsource = {schema = "a"}\ntarget = {schema = "b*"}',
            "a target is a name",
        ),
        (
            """
            [[table-migrate-rule]]
            source = {schema = "a", table = "t*"}
            target = {schema = "b"}
            [[table-migrate-rule]]
            source = {schema = "?", table = "*1"}
            target = {schema = "c"}
            """,
            "table-migrate-rule 1 and table-migrate-rule 2 route the same tables",
        ),
        ("ignore-txn-commit-ts = [0]", "ignore-txn-commit-ts"),
        (
            '[ddl-policy]\nadd_columm = "skip"',
            "^ddl-policy add_columm=skip: .* no kind of DDL 'add_columm'; .*'add_column'",
        ),
        ('origin = "a\\nb"', "origin .* printable ASCII"),
    ],
)
def test_a_wrong_one_says_what_is_wrong(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        loaded(tmp_path, text)


def test_a_replay_is_no_feed_to_configure() -> None:
    async def main(world: World) -> None:
        with pytest.raises(ConfigError, match="is a reader's replay"):
            build(DrainerConfig(feed="main=app"), world.ports())

    run(main, 1)


def test_the_example_has_every_key() -> None:
    example = (ROOT / "services/drainer/drainer.toml").read_text(encoding="utf-8")
    for field in msgspec.structs.fields(DrainerConfig):
        line = rf"^(# )?\[*{field.encode_name}(-file)?( =|[.\]])"
        assert re.search(line, example, re.MULTILINE), field.encode_name


def test_a_rule_without_a_table_gives_way_to_one_with_it(tmp_path: Path) -> None:
    filters = Filters(
        loaded(
            tmp_path,
            '[[table-migrate-rule]]\nsource = {schema = "app"}\ntarget = {schema = "copy"}\n'
            '[[table-migrate-rule]]\nsource = {schema = "app", table = "t"}\n'
            'target = {schema = "other", table = "u"}',
        )
    )
    found = [filters.table("app", table).target for table in ("", "t", "x")]
    assert [(one.db, one.table) for one in found] == [("copy", ""), ("other", "u"), ("copy", "x")]
    assert not any(one.merged for one in found)


@pytest.mark.parametrize(
    ("rules", "merged"),
    [
        ([("a", "t", "b", "t")], False),
        ([("a", "*", "b", "")], False),
        ([("a*", "t", "b", "")], True),
        ([("a", "t*", "", "t")], True),
        ([("a", "t", "b", "x"), ("c", "u", "b", "x")], True),
        ([("a", "t", "b", ""), ("b", "t2", "", "t")], True),
        ([("a", "t", "b", "x"), ("c", "u", "b", "y")], False),
    ],
)
def test_routes_that_may_meet_are_known(
    tmp_path: Path, rules: list[tuple[str, str, str, str]], merged: bool
) -> None:
    text = "\n".join(
        "[[table-migrate-rule]]\n"
        f'source = {{schema = "{schema}", table = "{table}"}}\n'
        f'target = {{schema = "{to}", table = "{name}"}}'
        for schema, table, to, name in rules
    )
    filters = Filters(loaded(tmp_path, text))
    assert filters.table("a", "t").target.merged is merged
