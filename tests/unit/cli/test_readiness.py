"""What `up` says while its start waits, and later of its nodes: each thing once, in time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.servers import free_port
from tidelog.errors import DeadlineExceeded, TidelogError, Unavailable, Untrusted
from tidelog.messages import (
    APPLIER,
    CLOSING,
    DRAINER,
    JOINING,
    OFFLINE,
    ONLINE,
    PAUSED,
    PUMP,
    Nodes,
    NodeStatus,
)
from tidelog.real.processes import RealProcesses
from tidelog_cli import readiness
from tidelog_cli.child import HTTP_FILE, Child, Service
from tidelog_cli.readiness import (
    REGISTRY,
    SAY_S,
    Readiness,
    Teller,
    holds_up,
    kept_out,
    late,
    missing,
)
from tidelog_cli.state_file import TopologyState

STATE = TopologyState("nats://127.0.0.1:1", "c", "main")


def test_a_start_that_moves_says_nothing() -> None:
    teller = Teller()
    assert teller.waits({"pump-1": "joining", "drainer": "it is starting"}, 0.0) == []
    assert teller.waits({"drainer": "it is starting"}, SAY_S - 0.1) == []
    assert teller.waits({"drainer": "it is starting"}, SAY_S + 1) == []
    assert teller.waits({"applier": "the downstream was never opened"}, 2 * SAY_S) == []


def test_a_start_that_stands_still_says_for_whom_it_waits_once() -> None:
    teller = Teller()
    reasons = {"pump-2": "joining", "pump-1": "joining: no answer"}
    assert teller.waits(reasons, 10.0) == []
    assert teller.waits(reasons, 10.0 + SAY_S) == [
        "waiting for pump-1: joining: no answer",
        "waiting for pump-2: joining",
    ]
    assert teller.waits(reasons, 100.0) == []
    changed = reasons | {"pump-2": "joining: another reason"}
    assert teller.waits(changed, 101.0) == ["waiting for pump-2: joining: another reason"]


def test_a_reason_that_changes_all_the_time_is_not_told_all_the_time() -> None:
    teller = Teller()
    told = [teller.waits({"drainer": f"attempt {n}"}, n / 10) for n in range(300)]
    assert len([lines for lines in told if lines]) == 5


def node(
    name: str, error: str = "", *, alive: bool = True, state: str = ONLINE, kind: str = PUMP
) -> NodeStatus:
    detail = {"error": error} if error else {"waiting": "for mail"}
    return NodeStatus(name, state=state, isAlive=alive, kind=kind, detail=detail)


READING = node("applier", kind=APPLIER)


def test_an_error_is_told_when_it_comes_changes_and_goes() -> None:
    teller = Teller()
    assert teller.errors([node("drainer"), node("applier")]) == []
    stopped = [node("drainer", "transaction 7: no binlog"), node("applier")]
    assert teller.errors(stopped) == ["drainer: transaction 7: no binlog"]
    assert teller.errors(stopped) == []
    # What an unreachable node said last is no news.
    assert teller.errors([node("drainer", "another", alive=False)]) == []
    assert teller.errors([node("drainer", "another")]) == ["drainer: another"]
    assert teller.errors([node("drainer")]) == ["drainer: goes on"]
    assert teller.errors([node("drainer")]) == []


def test_who_is_missing_and_why() -> None:
    found = [node("a"), node("b", state=JOINING), node("c", alive=False)]
    assert missing(found, ["a", "b", "c", "d"]) == {
        "b": "joining",
        "c": "unreachable",
        "d": "not registered",
    }


def test_a_pump_that_an_operator_keeps_out_holds_nobody_up_while_another_takes_writes() -> None:
    wanted = ["p1", "p2", "p3"]
    found = [node("p1", state=PAUSED), node("p2"), node("p3", state=CLOSING)]
    kept = kept_out(found, wanted, "--dir d")
    assert set(kept) == {"p1", "p3"}
    assert "`tidelog resume p1 --dir d` ends that" in kept["p1"]
    assert holds_up(found, wanted, {}, kept) == {}
    assert holds_up(found, [*wanted, "p4"], {}, kept) == {"p4": "not registered"}


def test_pumps_that_are_all_kept_out_are_waited_for_by_name() -> None:
    found = [node("p1", state=PAUSED), node("p2", alive=False)]
    kept = kept_out(found, ["p1", "p2"], "--dir d")
    assert holds_up(found, ["p1", "p2"], {}, kept) == {"p1": kept["p1"], "p2": "unreachable"}


def test_a_pump_that_is_paused_because_it_is_away_is_not_kept_out() -> None:
    found = [node("p1", state=PAUSED, alive=False), node("p2")]
    assert kept_out(found, ["p1", "p2"], "") == {}
    assert kept_out([node("other", state=PAUSED)], ["p1"], "") == {}


def test_a_stranded_pump_holds_nobody_up_while_another_takes_writes() -> None:
    found = [node("p1", state=OFFLINE, alive=False), node("p2")]
    why = {"p1": "stranded: 3 records"}
    assert holds_up(found, ["p1", "p2"], why, {}) == {}
    # One that is not ready takes no writes either, whatever the registry heard of it.
    both = why | {"p2": "it is starting"}
    assert holds_up(found, ["p1", "p2"], both, {}) == both
    joining = [node("p1", state=JOINING), node("p2")]
    assert holds_up(joining, ["p1", "p2"], why, {}) == why


def test_a_reader_is_waited_for_until_it_is_registered() -> None:
    pump = node("p")
    paused = node("a", state=PAUSED, kind=APPLIER)
    gone = node("a", alive=False, kind=APPLIER)
    wanted = ["p", "a"]
    assert holds_up([pump], wanted, {}, {}) == {"a": "not registered"}
    for reader in (paused, gone):
        kept = kept_out([pump, reader], wanted, "--dir d")
        assert holds_up([pump, reader], wanted, {}, kept) == {}
        assert holds_up([reader], wanted, {}, kept) == {"p": "not registered"}
    assert kept_out([paused], wanted, "--dir d") == {
        "a": "an operator paused it: `tidelog resume a --dir d` ends that"
    }


def test_a_reader_that_is_not_online_yet_is_late_unless_an_operator_keeps_it_out() -> None:
    found = [
        node("p", state=JOINING),
        node("a", state=PAUSED, kind=APPLIER),
        node("b", alive=False, kind=APPLIER),
        node("d", kind=DRAINER),
    ]
    wanted = ["p", "a", "b", "d", "e"]
    assert late(found, wanted, kept_out(found, wanted, "")) == {"b": "unreachable"}


class Asked:
    """What is known of a topology, in order, the last one for good; an error is raised."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *answers: Nodes | TidelogError) -> None:
        self.said: list[str] = []
        self._answers = list(answers)
        monkeypatch.setattr(readiness, "nodes", self._nodes)
        for name in ("SAY_S", "LOOK_S", "POLL_S"):
            monkeypatch.setattr(readiness, name, 0.0)

    def readiness(self) -> Readiness:
        names = {"registry": REGISTRY, "pump-1": "tidelog_pump", "applier": "tidelog_applier"}
        children = [
            Child(Service(*one, {}), Path("there"), RealProcesses(), print) for one in names.items()
        ]
        for child in children:
            child.was_ready = True
        return Readiness(children, lambda: STATE, self.said.append)

    async def _nodes(self, _bus: object, _cluster: str) -> Nodes:
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, TidelogError):
            raise answer
        return answer


def connections(monkeypatch: pytest.MonkeyPatch, *errors: TidelogError) -> None:
    """Refused by these, then made."""
    left = list(errors)

    @asynccontextmanager
    async def connected(_state: TopologyState) -> AsyncIterator[None]:
        if left:
            raise left.pop(0)
        yield None

    monkeypatch.setattr(readiness, "connected", connected)


def test_a_registry_that_is_ready_and_does_not_answer_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connections(monkeypatch)
    asked = Asked(
        monkeypatch, DeadlineExceeded("no answer within 5 s"), Nodes([node("pump-1"), READING])
    )

    async def reached() -> bool:
        async with asyncio.timeout(60):
            return await asked.readiness().reached(asyncio.Event())

    assert asyncio.run(reached())
    assert asked.said == ["waiting for registry: no answer within 5 s"]


def test_a_start_ends_though_its_applier_is_paused(monkeypatch: pytest.MonkeyPatch) -> None:
    connections(monkeypatch)
    paused = node("applier", state=PAUSED, kind=APPLIER)
    asked = Asked(monkeypatch, Nodes([node("pump-1"), paused]))

    async def reached() -> bool:
        async with asyncio.timeout(60):
            return await asked.readiness().reached(asyncio.Event())

    assert asyncio.run(reached())
    order = "`tidelog resume applier --dir there` ends that"
    assert asked.said == [f"applier is not ready: an operator paused it: {order}"]


def test_a_nats_server_of_ours_that_is_slow_is_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Everything starts at once; whoever is refused, by a wrong key say, ends it."""
    connections(monkeypatch, Unavailable("no answer"), Unavailable("no answer"))
    asked = Asked(monkeypatch, Nodes([node("pump-1"), READING]))

    async def reached() -> bool:
        async with asyncio.timeout(60):
            return await asked.readiness().reached(asyncio.Event())

    assert asyncio.run(reached())
    connections(monkeypatch, Untrusted("its certificate ran out"))
    with pytest.raises(Untrusted):
        asyncio.run(reached())


def test_who_can_t_be_asked_how_nodes_do_ends_no_topology(monkeypatch: pytest.MonkeyPatch) -> None:
    connections(monkeypatch, Unavailable("NATS is away"), Untrusted("its certificate ran out"))
    stopped = Nodes([node("pump-1", "no space is left")])
    asked = Asked(monkeypatch, Nodes([]), Unavailable("silence"), stopped)

    async def watched() -> None:
        task = asyncio.ensure_future(asked.readiness().watch())
        async with asyncio.timeout(60):
            while "pump-1: no space is left" not in asked.said:
                assert not task.done()
                await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()

    asyncio.run(watched())
    assert asked.said == [
        "nobody can be asked how they do: NATS is away",
        "nobody can be asked how they do: its certificate ran out",
        "silence",
        "pump-1: no space is left",
    ]


def test_an_admin_address_at_which_nobody_answers_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    connections(monkeypatch)
    monkeypatch.setattr(readiness, "SAY_S", 0.0)
    child = Child(Service("registry", REGISTRY, {}), tmp_path, RealProcesses(), print)
    child.home.mkdir()
    (child.home / HTTP_FILE).write_text(f"127.0.0.1:{free_port()}")
    said, stop = list[str](), asyncio.Event()

    def say(line: str) -> None:
        said.append(line)
        stop.set()

    async def reached() -> bool:
        async with asyncio.timeout(60):
            return await Readiness([child], lambda: STATE, say).reached(stop)

    assert not asyncio.run(reached())
    assert said == ["waiting for registry: it does not answer yet"]
    assert not child.was_ready


def started(home: Path, *names: str) -> list[Child]:
    """Their processes run, and serve HTTP at a port of this start."""
    modules = {"registry": REGISTRY, "pump-1": "tidelog_pump", "applier": "tidelog_applier"}
    children = [Child(Service(n, modules[n], {}), home, RealProcesses(), print) for n in modules]
    for child in children:
        child.was_ready = child.service.name in names
        child.home.mkdir()
        (child.home / HTTP_FILE).write_text("127.0.0.1:2\n")
    return children


def at(port: int, *, alive: bool = True) -> NodeStatus:
    return NodeStatus(
        "applier", state=ONLINE, isAlive=alive, kind=APPLIER, http=f"127.0.0.1:{port}"
    )


@pytest.mark.parametrize(
    ("known", "is_taken_in"),
    [(at(2), True), (at(1), False), (at(2, alive=False), False)],
    ids=["its process now", "the one before", "gone"],
)
def test_a_start_is_over_for_a_reader_once_its_process_is_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, known: NodeStatus, is_taken_in: bool
) -> None:
    """On a restart it is known from before: it was taken for ready, and one that refused its
    configuration later was started again for ever."""
    connections(monkeypatch)
    Asked(monkeypatch, Nodes([node("pump-1"), known]))
    monkeypatch.setattr(readiness, "READERS_S", 0.0)
    children = started(tmp_path, "registry", "pump-1")
    monkeypatch.setattr(Readiness, "_probe", never_ready)

    async def reached() -> bool:
        async with asyncio.timeout(60):
            ready = Readiness(children, lambda: STATE, print)
            return await ready.reached(asyncio.Event())

    assert asyncio.run(reached())
    assert [child.was_ready for child in children] == [True, True, is_taken_in]


async def never_ready(*_: object) -> str:
    return "it does not answer yet"


def test_a_reader_that_comes_later_is_taken_in_then(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    connections(monkeypatch)
    Asked(monkeypatch, Nodes([node("pump-1"), at(1)]), Nodes([node("pump-1"), at(2)]))
    children = started(tmp_path, "registry", "pump-1")

    async def watched() -> None:
        task = asyncio.ensure_future(Readiness(children, lambda: STATE, print).watch())
        async with asyncio.timeout(60):
            while not children[-1].was_ready:
                assert not task.done()
                await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])

    asyncio.run(watched())
