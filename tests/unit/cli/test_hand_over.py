"""A hand-over that ends leaves no Applier paused, and says so where it must."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tidelog.bulk.jobs import ReplayJob
from tidelog.errors import DeadlineExceeded, NotFound, TidelogError, Unavailable
from tidelog_cli import hand_over, operate
from tidelog_cli.operate import Wish
from tidelog_cli.state_file import TopologyState

STATE = TopologyState("nats://127.0.0.1:1", "c", "f")


class Registry:
    """Its answers are errors: to each order those of `ends`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **ends: BaseException) -> None:
        self.heard: list[str] = []
        self._ends = ends
        monkeypatch.setattr(hand_over, "connected", self._connected)
        monkeypatch.setattr(operate, "ask", self._ask)

    @asynccontextmanager
    async def _connected(self, _state: TopologyState) -> AsyncIterator[None]:
        yield None

    async def _ask(self, _bus: Any, _cluster: str, wish: Wish, _confirm: Any) -> None:
        self.heard.append(wish.action)
        if wish.action in self._ends:
            raise self._ends[wish.action]


def handed_over() -> None:
    job = ReplayJob(inputs=("relay",), downstream="mysql://db/")
    asyncio.run(hand_over.hand_over(STATE, "applier", job, {}, lambda _: None))


@pytest.mark.parametrize("end", [DeadlineExceeded("no answer"), asyncio.CancelledError()])
def test_a_pause_that_may_have_been_heard_is_taken_back(
    monkeypatch: pytest.MonkeyPatch, end: BaseException
) -> None:
    registry = Registry(monkeypatch, pause=end)
    with pytest.raises(type(end)):
        handed_over()
    assert registry.heard == ["pause", "resume"]


def test_a_pause_that_is_refused_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = Registry(monkeypatch, pause=NotFound("no applier"))
    with pytest.raises(NotFound):
        handed_over()
    assert registry.heard == ["pause"]


@pytest.mark.parametrize("end", [Unavailable("the job's"), asyncio.CancelledError()])
def test_an_applier_that_stays_paused_is_told(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], end: BaseException
) -> None:
    registry = Registry(monkeypatch, resume=TidelogError("the registry is gone"))

    async def ended(*_: object) -> None:
        raise end

    monkeypatch.setattr(hand_over, "_come_true", ended)
    with pytest.raises(type(end)):
        handed_over()
    assert registry.heard == ["pause", "resume"]
    assert "`tidelog resume applier`: the registry is gone" in capfd.readouterr().err
