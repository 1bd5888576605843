"""A hand-over that ends leaves no Applier paused, and says so where it must."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tidelog.applier_control import READ_AHEAD, ApplierRequest, LetGo
from tidelog.bulk.jobs import ReplayJob
from tidelog.bulk.told import Progress, Report
from tidelog.errors import (
    ConfigError,
    DeadlineExceeded,
    NoResponders,
    NotFound,
    TidelogError,
    Unavailable,
)
from tidelog.messages import DRAINER, Nodes, NodeStatus, decode, encode
from tidelog_cli import bulk, hand_over, operate
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


def test_an_applier_whose_resuming_is_broken_off_is_told(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Who won't wait for it ends it at once: without a word."""
    Registry(monkeypatch, pause=Unavailable("no answer"), resume=asyncio.CancelledError())
    with pytest.raises(asyncio.CancelledError):
        handed_over()
    assert "perhaps not resumed, give `tidelog resume applier`" in capfd.readouterr().err


class Topology:
    """A registry that takes every order, and an Applier that is not there for a moment while it
    reads ahead."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, goal: int) -> None:
        self.asked: list[str] = []
        self.report = Report(goal)
        self._goal = goal
        for name in ("connected", "nodes_soon", "_come_true"):
            monkeypatch.setattr(hand_over, name, getattr(self, name.strip("_")))
        monkeypatch.setattr(operate, "ask", self.ordered)
        monkeypatch.setattr(bulk, "do_here", self.do_here)
        monkeypatch.setattr(hand_over, "POLL_S", 0)

    @asynccontextmanager
    async def connected(self, _state: TopologyState) -> AsyncIterator[Topology]:
        yield self

    async def nodes_soon(self, *_: object) -> Nodes:
        return Nodes([NodeStatus("d", kind=DRAINER, feed="main", resolvedTS=self._goal)])

    async def come_true(self, *_: object) -> None:
        """At once."""

    async def ordered(self, _bus: Any, _cluster: str, wish: Wish, _confirm: Any) -> None:
        self.asked.append(wish.action)

    async def do_here(self, _job: ReplayJob, _told: Any, *, env: Any) -> Report:
        self.asked.append("job")
        return self.report

    async def request(self, subject: str, body: bytes, *, timeout_s: float) -> Any:
        verb = decode(body, ApplierRequest).verb
        self.asked.append(verb)
        reads = self.asked.count(READ_AHEAD)
        if verb == READ_AHEAD and reads == 2:
            raise NoResponders("it is being started again")
        answer = LetGo("main", "applier", self._goal if reads > 3 else 5, 0, "")
        return type("Answer", (), {"data": encode(answer)})


def test_an_applier_that_is_started_again_while_it_reads_ahead_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topology = Topology(monkeypatch, goal=9)
    told: list[Progress] = []
    job = ReplayJob(inputs=("relay",), downstream="mysql://db/")
    done = asyncio.run(hand_over.hand_over(STATE, "applier", job, {}, told.append))
    assert done == topology.report
    assert topology.asked == ["pause", "let-go", *[READ_AHEAD] * 4, "job", "resume"]
    assert [one.commit_ts for one in told] == [5, 9]


def test_a_signal_while_the_applier_is_resumed_waits_for_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topology = Topology(monkeypatch, goal=5)

    async def ordered(_bus: Any, _cluster: str, wish: Wish, _confirm: Any) -> None:
        if wish.action == operate.RESUME:
            tasks["command"].cancel()
            await asyncio.sleep(0.01)
        topology.asked.append(wish.action)

    tasks: dict[str, asyncio.Task[Report]] = {}
    monkeypatch.setattr(operate, "ask", ordered)
    job = ReplayJob(inputs=("relay",), downstream="mysql://db/")

    async def command() -> None:
        work = hand_over.hand_over(STATE, "applier", job, {}, lambda _: None)
        task = tasks["command"] = asyncio.ensure_future(work)
        await asyncio.wait([task])
        assert task.cancelled()

    asyncio.run(command())
    assert topology.asked[-2:] == ["job", "resume"]


def test_settings_of_an_applier_that_no_job_can_have() -> None:
    given = hand_over.Given("relay", {"downstream": "mysql://db/", "channel_id": "seven"})
    with pytest.raises(ConfigError, match=r"the Applier's configuration: .*channel-id"):
        given.job({})
