"""Who holds the downstream while it is compared, and from when on."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest
import typer

from tidelog.errors import BadInput, Unavailable
from tidelog.messages import APPLIER, ONLINE, Nodes, NodeStatus
from tidelog_cli import operate, terminal
from tidelog_cli.operate import Wish
from tidelog_cli.verify import verifying
from tidelog_cli.verify.report import TableResult
from tidelog_cli.verify.verifying import Asked

DUMPED_AT = 7


class Silent:
    """Nobody watches."""

    def waits(self, why: str) -> None: ...
    def begins(self, tables: int, rows: int) -> None: ...
    def rows(self, count: int) -> None: ...
    def compared(self, result: TableResult) -> None: ...


@pytest.fixture
def asked(tmp_path: Path) -> Asked:
    dump, copy = tmp_path / "dump.json", tmp_path / "copy.db"
    dump.write_text(json.dumps({"commit_ts": DUMPED_AT, "tables": []}))
    with closing(sqlite3.connect(copy)) as file, file:
        file.execute(
            'CREATE TABLE "tidb_binlog.checkpoint" (clusterID INTEGER PRIMARY KEY, checkPoint TEXT)'
        )
        text = json.dumps({"commitTS": DUMPED_AT, "consistent": True})
        file.execute('INSERT INTO "tidb_binlog.checkpoint" VALUES (1, ?)', (text,))
    return Asked(f"dump:///{dump}", f"sqlite:///{copy}")


def test_it_is_held_where_it_has_what_the_dump_holds(asked: Asked) -> None:
    """Held before, it would be waited for in vain."""
    seen: list[object] = []

    @asynccontextmanager
    async def hold(least: int) -> AsyncIterator[None]:
        seen.append(least)
        try:
            yield
        finally:
            seen.append("let go")

    with pytest.raises(BadInput, match="no such table"):
        asyncio.run(verifying.verify(asked, Silent(), hold))
    assert seen == [DUMPED_AT, "let go"]


def test_nobody_is_held_for_what_can_t_be_read(asked: Asked) -> None:
    def hold(_: int) -> Any:
        pytest.fail("it was held")

    wrong = Asked("dump:////nowhere", asked.downstream)
    with pytest.raises(BadInput):
        asyncio.run(verifying.verify(wrong, Silent(), hold))


class Registry:
    """Of two Appliers; `refuses` orders, and asks `first` before it answers one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.orders: list[tuple[str, str]] = []
        self.refuses: list[tuple[str, str]] = []
        self.first: Callable[[str], Awaitable[None]] | None = None
        monkeypatch.setattr(verifying, "nodes_soon", self._nodes)
        monkeypatch.setattr(operate, "ask", self._ask)
        monkeypatch.setattr(operate, "come_true", self._come_true)

    async def _nodes(self, _bus: object, _cluster: str) -> Any:
        return Nodes(
            [NodeStatus(n, state=ONLINE, isAlive=True, kind=APPLIER, feed="f") for n in "ab"]
        )

    async def _ask(self, _bus: object, _cluster: str, wish: Wish, _confirm: object) -> None:
        if self.first is not None:
            await self.first(wish.action)
        self.orders.append((wish.node, wish.action))
        if self.orders[-1] in self.refuses:
            raise Unavailable("the registry is away")

    async def _come_true(self, *_: object) -> None: ...


async def held(meanwhile: Callable[[], Awaitable[None]] | None = None) -> int:
    bus: Any = None
    async with verifying.held(bus, "c", "f", 1.0, Silent()):
        if meanwhile is not None:
            await meanwhile()
    return 0


PAUSED = [("a", operate.PAUSE), ("b", operate.PAUSE)]
RESUMED = [("a", operate.RESUME), ("b", operate.RESUME)]
BOTH = "a stands still: `tidelog resume a`; b stands still: `tidelog resume b`"


@pytest.mark.parametrize(("refused", "hint"), [(RESUMED[:1], BOTH.split("; ")[0]), (RESUMED, BOTH)])
def test_each_of_them_is_resumed_though_another_can_t_be(
    monkeypatch: pytest.MonkeyPatch, refused: list[tuple[str, str]], hint: str
) -> None:
    registry = Registry(monkeypatch)
    registry.refuses = refused
    with pytest.raises(Unavailable, match="the registry is away") as told:
        asyncio.run(held())
    assert told.value.hint == hint
    assert registry.orders == PAUSED + RESUMED


async def signalled() -> None:
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.Event().wait()


@pytest.mark.parametrize("meanwhile", [signalled, None])
def test_a_signal_while_they_are_resumed_waits_for_that(
    monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], Awaitable[None]] | None
) -> None:
    """A second one, and a first one: an Applier was left paused without a word."""
    registry, signals = Registry(monkeypatch), [signal.SIGTERM]

    async def first(action: str) -> None:
        if action == operate.RESUME and signals:
            os.kill(os.getpid(), signals.pop())
            await asyncio.sleep(0.05)

    registry.first = first
    with pytest.raises(typer.Exit) as ended:
        terminal.run(held(meanwhile))
    assert ended.value.exit_code == 143
    assert registry.orders == PAUSED + RESUMED


def test_who_stands_still_when_it_is_ended_at_once_is_told(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    registry = Registry(monkeypatch)

    async def first(action: str) -> None:
        if action == operate.RESUME:
            for _ in "23":
                asyncio.get_running_loop().call_soon(os.kill, os.getpid(), signal.SIGTERM)
            await asyncio.sleep(20)

    registry.first = first
    with pytest.raises(typer.Exit) as ended:
        terminal.run(held(signalled))
    assert ended.value.exit_code == 143
    assert registry.orders == PAUSED
    assert capfd.readouterr().err.splitlines()[-1] == BOTH
