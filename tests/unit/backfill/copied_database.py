"""A database in memory that a copy fills. Of all else in a job only Spark and NATS are replaced."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from tests.unit.backfill.test_copy_rate import Here
from tidelog.bulk.jobs import BackfillJob
from tidelog.bulk.told import Report
from tidelog.changes import DdlMessage
from tidelog.downstream import Checkpoint, Opened, TableRule, Work
from tidelog_backfill.snapshot import database, run
from tidelog_backfill.snapshot.plan import SnapshotPlan

FEED, REACH = "main", 900


class Died(BaseException):
    """The process is killed."""


class Database:
    """What lasts. `ends`: which calls fail the next time, and by what."""

    def __init__(self) -> None:
        self.checkpoint: Checkpoint | None = None
        self.epoch = 0
        self.rows: list[dict[str, Any]] = []
        self.parts: set[tuple[str, int]] = set()
        self.progress: set[str] = set()
        self.plan: SnapshotPlan | None = None
        self.whole = False
        self.pinned = False
        self.ordered = False
        self.ends: dict[str, BaseException] = {}

    def may_end(self, call: str) -> None:
        if error := self.ends.pop(call, None):
            raise error

    def save(self, checkpoint: Checkpoint) -> None:
        self.checkpoint = msgspec.structs.replace(checkpoint, epoch=self.epoch)


class _Downstream:
    def __init__(self, on: Database) -> None:
        self._on = on

    async def open(self, feed: str) -> Opened:
        self._on.epoch += 1
        return Opened(self._on.checkpoint, self._on.epoch, 2)

    async def join(self, feed: str, epoch: int) -> None: ...

    async def close(self) -> None: ...

    async def lane(self, number: int) -> _Lane:
        return _Lane(self._on)

    async def rule(self, db: str, structure: object) -> TableRule:
        return TableRule(self._on.ordered, True, ())

    async def apply_ddl(self, ddl: DdlMessage, checkpoint: Checkpoint) -> list[str]:
        self._on.save(checkpoint)
        return []

    async def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        self._on.save(checkpoint)

    async def parts_done(self, step: str) -> frozenset[int]:
        self._on.parts = {one for one in self._on.parts if one[0] == step}
        return frozenset(part for _, part in self._on.parts)

    async def forget_written(self, ordered: Sequence[tuple[str, str]]) -> None:
        assert set(ordered) <= {("d", "t")}
        self._on.parts.clear()
        if ordered:
            self._on.progress.clear()


class _Lane:
    """Of an ordered table it passes by what its progress names, as a whole."""

    def __init__(self, on: Database) -> None:
        self._on = on

    async def apply(self, work: Work) -> None:
        for share in work.shares:
            self._on.rows += [one.row for one in share.inserts]
            if share.events and "passed" not in self._on.progress:
                self._on.rows += [one.after for one in share.events if one.after is not None]
                self._on.progress.add("passed")
        if work.done is not None:
            self._on.parts.add((work.done.step, work.done.part))

    async def close(self) -> None: ...


class _Plans:
    def __init__(self, on: Database) -> None:
        self._on = on

    async def load(self) -> SnapshotPlan | None:
        return self._on.plan

    async def save(self, plan: SnapshotPlan) -> None:
        self._on.plan = plan

    async def say_whole(self) -> None:
        self._on.may_end("say_whole")
        self._on.whole = True

    async def is_whole(self) -> bool:
        return self._on.whole

    async def forget(self) -> None:
        self._on.may_end("forget")
        self._on.plan, self._on.whole = None, False


class _Session:
    """Knows one table, `d.t`."""

    def __init__(self, on: Database) -> None:
        self._on = on

    async def rows(self, sql: str) -> Sequence[tuple[int]]:
        assert sql.startswith("SELECT 1 FROM `d`.`t`")
        return [(1,)] if self._on.rows else []

    async def close(self) -> None: ...


class _Pin:
    held = ""
    holds = True

    def __init__(self, on: Database, job: BackfillJob) -> None:
        self._on = on
        self._ts = job.snapshot_ts

    async def timestamp(self, by_source: int) -> int:
        self._on.pinned = True
        return self._ts or by_source

    async def hold(self, ts: int) -> None:
        self._on.pinned = True

    async def reach(self, by_source: int) -> int:
        return REACH

    async def let_go(self, ts: int) -> list[str]:
        self._on.may_end("let_go")
        self._on.pinned = False
        return []

    async def drop(self) -> None:
        self._on.pinned = False


@pytest.fixture
def copied(monkeypatch: pytest.MonkeyPatch) -> Database:
    on = Database()

    async def connect(_: object) -> _Session:
        return _Session(on)

    monkeypatch.setattr(database, "open_downstream", lambda _: _Downstream(on))
    monkeypatch.setattr(database, "PlanTable", lambda *_: _Plans(on))
    monkeypatch.setattr(database, "MysqlSession", SimpleNamespace(connect=connect))
    monkeypatch.setattr(run, "Pin", lambda job, _: _Pin(on, job))
    return on


def copy(source: str, **more: Any) -> Report:
    job = BackfillJob(source=source, downstream="mysql://u@copy/", feed=FEED, **more)
    return run.backfill(Here(), job, lambda _: None)  # type: ignore[arg-type]
