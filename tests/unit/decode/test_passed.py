"""What is remembered of DDLs that were passed: nothing that is not asked for again."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.decode.upstream import Upstream
from tidelog.decode.passed import Passed
from tidelog.decode.transactions import DdlTxn, RowTxn
from tidelog.schema.model import HistoryInfo


def settle(up: Upstream, keep: int) -> None:
    """As the publisher does every few seconds."""
    up.tracker.fold(1 << 62, keep=keep)
    up.decoder.passed.settle(up.tracker.settled)


def test_tables_that_come_and_go_leave_nothing_behind() -> None:
    up = Upstream()
    for n in range(100):
        up.create("app", f"t{n}")
        up.drop("app", f"t{n}")
        settle(up, keep=8)
    assert up.decoder.passed.remembered <= 8


def test_what_was_passed_stays_passed() -> None:
    passed = Passed()
    passed.base_version = 3
    passed.settle(2)
    assert passed.version_of(1) == 3
    passed.settle(7)
    assert passed.version_of(1) == 7


def test_a_binlog_that_never_comes_is_not_waited_for_for_ever() -> None:
    up = Upstream(ddl_policy={"cache_table": "forward"})
    up.create("app", "t")
    info = up.tracker.table(up.id_of("app.t"), up.version).info
    for n in range(10):
        up.version += 1
        up.job("cache_table", "app", info.id, "CACHE", HistoryInfo(up.version, table_info=info))
        txn = up.commit(("app.t", "insert", {"id": n}))
        assert txn is not None
        assert [ddl.message.kind for ddl in txn.ddls] == ["cache_table"]
        settle(up, keep=2)
    assert len(up.decoder.passed.early) <= 2


class Shown(msgspec.Struct):
    """What a reader would see of a transaction or a DDL."""

    ddls: list[tuple[int, bool]]
    rows: list[tuple[int, list[bytes]]]


def shown(found: RowTxn | DdlTxn | None) -> Shown:
    if isinstance(found, DdlTxn):
        return Shown([(found.message.schema_version, found.message.early)], [])
    if found is None:
        return Shown([], [])
    ddls = [(ddl.message.schema_version, ddl.message.early) for ddl in found.ddls]
    return Shown(ddls, [(rows.route.table.version, rows.events) for rows in found.tables])


@pytest.mark.parametrize("keep", [0, 1, 3])
@given(steps=st.lists(st.tuples(st.sampled_from(("early", "ddl", "row")), st.integers(0, 2))))
@settings(max_examples=60, deadline=None)
def test_forgetting_changes_nothing_that_readers_see(
    keep: int, steps: list[tuple[str, int]]
) -> None:
    """DDLs whose binlogs come before or after the first rows of their version."""
    seen: list[list[Shown]] = [[], []]
    for found, forgets in zip(seen, (False, True), strict=True):
        up = Upstream()
        late: dict[int, int] = {}
        for table in range(3):
            found.append(shown(up.create("app", f"t{table}")))
        for number, (what, table) in enumerate(steps):
            if what == "row" or table in late:
                found.append(shown(up.commit((f"app.t{table}", "insert", {"id": number}))))
                if table in late:
                    found.append(shown(up.decoded(late.pop(table))))
            elif what == "early":
                late[table] = up.add_column("app", f"t{table}", f"c{number}")
            else:
                found.append(shown(up.alter("app", f"t{table}", f"c{number}")))
            if forgets and not late:
                settle(up, keep)
    assert seen[0] == seen[1]
