"""Who holds the downstream while it is compared, and from when on."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tidelog.errors import BadInput, Unavailable
from tidelog.messages import APPLIER, ONLINE, NodeStatus
from tidelog_cli import operate
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


def test_each_of_them_is_resumed_though_another_can_t_be(monkeypatch: pytest.MonkeyPatch) -> None:
    orders: list[tuple[str, str]] = []
    found = [NodeStatus(n, state=ONLINE, isAlive=True, kind=APPLIER, feed="f") for n in "ab"]

    async def nodes(_bus: object, _cluster: str) -> Any:
        return SimpleNamespace(nodes=found)

    async def ask(_bus: object, _cluster: str, wish: Wish, _confirm: object) -> None:
        orders.append((wish.node, wish.action))
        if orders[-1] == ("a", operate.RESUME):
            raise Unavailable("the registry is away")

    async def come_true(*_: object) -> None: ...

    monkeypatch.setattr(verifying, "nodes_soon", nodes)
    monkeypatch.setattr(operate, "ask", ask)
    monkeypatch.setattr(operate, "come_true", come_true)

    async def held() -> None:
        bus: Any = None
        async with verifying.held(bus, "c", "f", 1.0, Silent()):
            pass

    with pytest.raises(Unavailable, match="the registry is away") as told:
        asyncio.run(held())
    assert told.value.hint == "a stands still: `tidelog resume a`"
    pause, resume = operate.PAUSE, operate.RESUME
    assert orders == [("a", pause), ("b", pause), ("a", resume), ("b", resume)]
