"""What a copy whose rows may be ahead of the checkpoint can't hold."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest
from structlog.testing import capture_logs

from tidelog.bulk.jobs import BackfillJob
from tidelog.errors import NotFound, Refused, Unavailable
from tidelog.schema.structure import TableStructure
from tidelog_backfill.snapshot import run
from tidelog_backfill.snapshot.parquet import PLAN as PLAN_FILE
from tidelog_backfill.snapshot.plan import Asked, CopiedTable, SnapshotPlan
from tidelog_backfill.snapshot.refusals import (
    refuse_changed,
    refuse_keyless,
    refuse_keyless_told,
    refuse_ordered,
    refuse_unmet,
)
from tidelog_backfill.snapshot.source import Found

S = 100
NO_SPARK: Any = SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=2))


def _table(name: str, *key: str, ordered: bool = False) -> CopiedTable:
    return CopiedTable("d", TableStructure(name, 0, key_columns=key), ordered=ordered)


def test_tables_without_a_key() -> None:
    refuse_keyless([_table("a", "id")])
    with pytest.raises(Refused, match=r"unique key: d\.b, d\.c"):
        refuse_keyless([_table("a", "id"), _table("b"), _table("c")])


def test_tables_without_a_key_whose_rows_may_be_told_twice() -> None:
    refuse_keyless_told([_table("a", "id")])
    with pytest.raises(Refused, match=r"unique key: d\.b") as refused:
        refuse_keyless_told([_table("a", "id"), _table("b")])
    assert "comes to the feed's stream twice" in refused.value.hint


def test_names_that_no_table_has() -> None:
    """A slip of the pen must not look like a copy of all that was named."""
    found = Found([_table("a", "id")], others=[("d", "v")])
    assert refuse_unmet(["D.A", "d.v", "log_?.*"], found, "here") == ["here has no table log_?.*"]
    with pytest.raises(NotFound, match=r"here has no table d\.b"):
        refuse_unmet(["d.a", "d.b"], found, "here")


def test_tables_that_are_written_in_order() -> None:
    refuse_ordered([_table("a", "id")])
    with pytest.raises(Refused, match=r"in the way of d\.b"):
        refuse_ordered([_table("a", "id"), _table("b", "id", ordered=True)])


def test_tables_that_changed_while_the_copy_began() -> None:
    a, b = _table("a", "id"), _table("b", "id")
    refuse_changed([a, b], [b, a])
    with pytest.raises(Unavailable, match=r"began: d\.a, d\.c \("):
        refuse_changed([a, b], [_table("a", "x"), b, _table("c")])


class OfNow:
    """A source as MySQL is, with a key in one of its tables."""

    shown, is_exact, is_now, guarantee = "mysql://u@db:3306", False, True, ""

    def timestamp(self) -> int:
        return 0

    def found(self, tables: Any, ts: int) -> Found:
        return Found([_table("a", "id"), _table("b"), _table("c")])

    def chunks(self, *_: object) -> list[Any]:
        return []


@pytest.mark.parametrize("to", [{"to_feed": True}, {"downstream": "mysql://u@db/"}])
def test_rows_that_the_stream_brings_again_are_not_copied_to_where_it_goes_on(
    to: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    target = AsyncMock(anew="empty it", kept=AsyncMock(return_value=None))
    monkeypatch.setattr(run, "open_source", lambda *_: OfNow())
    monkeypatch.setattr(run, "open_target", lambda *_: target)
    job = BackfillJob(source="mysql://u@db/", snapshot_ts=S, **to)
    with pytest.raises(Refused, match=r"unique key: d\.b, d\.c"):
        run.backfill(NO_SPARK, job, lambda _: None)
    target.prepare.assert_not_called()


def test_nor_are_those_of_a_plan_that_an_earlier_release_has_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = OfNow()
    asked = Asked("main", source.shown, ())
    plan = SnapshotPlan(S, False, "", source.found((), S).tables, [], asked)
    target = AsyncMock(anew="empty it", kept=AsyncMock(return_value=plan))
    monkeypatch.setattr(run, "open_source", lambda *_: source)
    monkeypatch.setattr(run, "open_target", lambda *_: target)
    job = BackfillJob(source="mysql://u@db/", feed="main", snapshot_ts=S, to_feed=True)
    with pytest.raises(Refused, match=r"unique key: d\.b, d\.c"):
        run.backfill(NO_SPARK, job, lambda _: None)


class OfThen(OfNow):
    """A source as TiDB is, read at a timestamp."""

    is_exact, is_now = True, False


def test_the_feed_takes_none_of_an_exact_source_either(monkeypatch: pytest.MonkeyPatch) -> None:
    """One chunk that is tried again is enough: a reader could not tell its rows from new ones."""
    target = AsyncMock(anew="empty it", kept=AsyncMock(return_value=None))
    monkeypatch.setattr(run, "open_source", lambda *_: OfThen())
    monkeypatch.setattr(run, "open_target", lambda *_: target)
    job = BackfillJob(source="mysql://u@db/", snapshot_ts=S, to_feed=True)
    with pytest.raises(Refused, match=r"unique key: d\.b, d\.c"):
        run.backfill(NO_SPARK, job, lambda _: None)
    target.prepare.assert_not_called()


def test_files_may_hold_them_and_the_report_warns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "open_source", lambda *_: OfNow())
    job = BackfillJob(source="mysql://u@db/", parquet=f"{tmp_path}/copy", snapshot_ts=S)
    for _ in ("begun", "given again"):
        warnings = run.backfill(NO_SPARK, job, lambda _: None).warnings
        (told,) = [one for one in warnings if "unique key" in one]
        assert told == (
            "without a primary or NOT NULL unique key, the copy may hold rows that the feed has"
            f" after {S}, and nothing tells which: d.b, d.c"
        )


class Keyed(OfThen):
    def found(self, tables: Any, ts: int) -> Found:
        return Found([_table("a", "id")])


@pytest.mark.parametrize("step", ["prepare", "keep"])
@pytest.mark.parametrize("is_there", [True, False])
def test_who_is_refused_for_another_ones_copy_holds_what_that_one_needs(
    step: str, monkeypatch: pytest.MonkeyPatch, *, is_there: bool
) -> None:
    """Both hold it in one name, and this one has moved that to a later timestamp."""
    earlier = SnapshotPlan(S - 7, True, "", [_table("a", "id")], [], Asked("f", "", ()))
    found = [None, earlier if is_there else None]
    target = AsyncMock(kept=AsyncMock(side_effect=found))
    target.prepare.return_value = SimpleNamespace(tables=[_table("a", "id")], warnings=[])
    getattr(target, step).side_effect = Refused("another one")
    pin = AsyncMock(timestamp=AsyncMock(return_value=S), held="")
    monkeypatch.setattr(run, "open_source", lambda *_: Keyed())
    monkeypatch.setattr(run, "open_target", lambda *_: target)
    monkeypatch.setattr(run, "Pin", lambda *_: pin)
    job = BackfillJob(source="mysql://u@db/", snapshot_ts=S, to_feed=True)
    with pytest.raises(Refused, match="another one"):
        run.backfill(NO_SPARK, job, lambda _: None)
    assert [one.args for one in pin.hold.await_args_list] == ([(S - 7,)] if is_there else [])
    assert pin.drop.await_count == (not is_there)


@pytest.mark.parametrize(
    ("name", "data", "drops"),
    [("theirs.txt", b"x", True), (PLAN_FILE, b'{"ts":', False)],
    ids=["no copy", "nobody can tell"],
)
def test_who_ends_beside_something_else_lets_go_only_where_no_copy_can_be(
    name: str, data: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, drops: bool
) -> None:
    """Somebody has put it there since the directory was found empty."""

    class Meanwhile(Keyed):
        def chunks(self, *_: object) -> list[Any]:
            (tmp_path / "copy" / name).write_bytes(data)
            raise Unavailable("the source is gone")

    pin = AsyncMock(timestamp=AsyncMock(return_value=S), held="`tidelog feed unregister`")
    monkeypatch.setattr(run, "open_source", lambda *_: Meanwhile())
    monkeypatch.setattr(run, "Pin", lambda *_: pin)
    job = BackfillJob(source="mysql://u@db/", snapshot_ts=S, parquet=f"{tmp_path}/copy")
    with pytest.raises(Unavailable, match="the source is gone") as ended, capture_logs() as logged:
        run.backfill(NO_SPARK, job, lambda _: None)
    assert ended.value.hint.endswith(pin.held)
    assert pin.drop.await_count == drops
    pin.hold.assert_not_awaited()
    told = [one["why"] for one in logged if one["event"] == "what a copy would need stays held"]
    assert [f"{PLAN_FILE} is no plan of a backfill" in why for why in told] == [True] * (not drops)
