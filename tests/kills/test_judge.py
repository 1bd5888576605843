"""The judge of the kill rig: what it takes, and that each thing that may be wrong is said."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.kills.judge import Judge
from tests.kills.ledger import Acked, Begun, Event, Failed, Ledger, LedgerFile, digest
from tests.unit.decode.upstream import table_info
from tests.wrong import Wrong
from tidelog.changes import DdlMessage, DdlTable
from tidelog.schema.history import TableAt
from tidelog.schema.structure import structure
from tidelog.subscriber import Transaction


def events(txn_id: int, body: str = "a") -> list[Event]:
    return [
        ("shop.log", None, {"id": txn_id, "client": 1}),
        ("shop.item", None, {"id": txn_id, "txn": txn_id, "body": body}),
    ]


def read(commit_ts: int, changed: list[Event], *ddls: DdlMessage) -> Transaction:
    rows = [
        SimpleNamespace(
            db="shop",
            table=table.partition(".")[2],
            events=[SimpleNamespace(before=before, after=after)],
        )
        for table, before, after in changed
    ]
    return cast(Transaction, SimpleNamespace(commit_ts=commit_ts, ddls=ddls, rows=rows))


def altered(*columns: str, gone: bool = False, early: bool = False) -> DdlMessage:
    """A DDL of shop.d."""
    table = structure(TableAt("shop", "d", 1, table_info(1, "d", columns)))
    change = DdlTable("shop", "", table) if gone else DdlTable("", "shop", None, table)
    return DdlMessage(1, "", "", "shop", 1, tables=[change], early=early)


class Scene:
    """A writer's ledger, and the judge who reads `upto` in the stream."""

    def __init__(self, directory: Path) -> None:
        self.file = LedgerFile(directory / "ledger")
        self.judge = Judge(directory / "ledger", "main")

    def begin(self, *ids: int) -> None:
        for txn_id in ids:
            self.file.write(Begun(txn_id, digest(events(txn_id))))

    def upto(self, commit_ts: int) -> None:
        self.judge._changes = cast(Any, SimpleNamespace(watermark=commit_ts))


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    made.begin(1, 2, 3)
    yield made
    made.file.close()


def test_what_is_acked_is_there_and_what_nobody_knows_may_be(scene: Scene) -> None:
    scene.file.write(Acked(1, 10))
    scene.file.write(Acked(3, 30))
    for commit_ts, txn_id in ((10, 1), (20, 2)):
        scene.judge.take(read(commit_ts, events(txn_id)))
    scene.upto(25)
    scene.judge.settle()
    assert (scene.judge.acked, scene.judge.seen, scene.judge.last_acked) == (2, 2, 30)


def test_one_that_is_acked_and_passed_is_lost(scene: Scene) -> None:
    scene.file.write(Acked(1, 10))
    scene.upto(10)
    with pytest.raises(Wrong, match="lost: 1, acked at 10"):
        scene.judge.settle()
    assert scene.judge.counts == {"lost": 1}


def test_one_that_comes_twice(scene: Scene) -> None:
    scene.judge.take(read(10, events(1)))
    with pytest.raises(Wrong, match="duplicated: 1 at 10 and at 11"):
        scene.judge.take(read(11, events(1)))


@pytest.mark.parametrize("first", ["failed", "read"])
def test_one_that_failed_for_certain_and_is_there(scene: Scene, first: str) -> None:
    if first == "failed":
        scene.file.write(Failed(1, "NoPump"))
    else:
        scene.judge.take(read(10, events(1)))
        scene.file.write(Failed(1, "NoPump"))
    with pytest.raises(Wrong, match="duplicated: "):
        scene.judge.take(read(11, events(1 if first == "failed" else 2)))


def test_one_that_comes_before_its_turn(scene: Scene) -> None:
    scene.judge.take(read(10, events(1)))
    with pytest.raises(Wrong, match="out of order: 10 after 10"):
        scene.judge.take(read(10, events(2)))


def test_one_acked_at_another_commit_ts(scene: Scene) -> None:
    scene.file.write(Acked(1, 9))
    scene.judge.take(read(10, events(1)))
    scene.upto(10)
    with pytest.raises(Wrong, match="out of order: 1 acked at 9, is at 10"):
        scene.judge.settle()


@pytest.mark.parametrize("txn_id", [1, 4])
def test_other_rows_than_were_written_or_of_nobody(scene: Scene, txn_id: int) -> None:
    with pytest.raises(Wrong, match="is not what was written"):
        scene.judge.take(read(10, events(txn_id, "b")))


def test_a_row_that_is_not_as_the_stream_left_it(scene: Scene) -> None:
    before, after = ({"id": 1, "txn": 1, "body": body} for body in "ab")
    changed: list[Event] = [
        ("shop.log", None, {"id": 4, "client": 1}),
        ("shop.item", before, after),
    ]
    scene.file.write(Begun(4, digest(changed)))
    with pytest.raises(Wrong, match=r"lost: 4 at 10 finds shop\.item 1 as None"):
        scene.judge.take(read(10, changed))


def widened(txn_id: int, **row: int) -> list[Event]:
    return [*events(txn_id), ("shop.d", None, {"id": txn_id, **row})]


def test_a_table_that_is_altered_while_rows_come(scene: Scene) -> None:
    for txn_id, row in ((1, {}), (2, {"n": 7})):
        scene.file.write(Begun(txn_id, digest(widened(txn_id, **row))))
    take, tables = scene.judge.take, scene.judge._tables
    take(read(10, [], altered("id")))
    take(read(20, widened(1)))
    take(read(30, widened(2, n=7), altered("id", "n", early=True)))
    assert tables["d"] == {1: {"id": 1, "n": None}, 2: {"id": 2, "n": 7}}
    assert (scene.judge.ddls, scene.judge.early, scene.judge.seen) == (2, 1, 2)
    take(read(40, [], altered("id", "n", gone=True)))
    assert "d" not in tables


def test_a_row_that_comes_before_the_ddl_of_its_column(scene: Scene) -> None:
    scene.file.write(Begun(1, digest(widened(1, n=7))))
    scene.judge.take(read(10, [], altered("id")))
    with pytest.raises(Wrong, match=r"out of order: 1 at 20 has .* whose DDL is to come"):
        scene.judge.take(read(20, widened(1, n=7)))


def test_a_line_that_a_kill_cut_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    with closing(LedgerFile(path)) as first:
        assert first.begin_life() == 1
    with path.open("ab") as file:
        file.write(b'{"type":"begun","id":7,"dig')
    with closing(LedgerFile(path)) as again:
        assert again.begin_life() == 2
        again.write(Begun(8, "x"))
    assert list(Ledger(path).read())[-1] == Begun(8, "x")
