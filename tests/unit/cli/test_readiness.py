"""What `up` says while its start waits, and later of its nodes: each thing once, in time."""

from __future__ import annotations

from tidelog.messages import JOINING, ONLINE, PUMP, NodeStatus
from tidelog_cli.readiness import SAY_S, Teller, missing


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


def node(name: str, error: str = "", *, alive: bool = True, state: str = ONLINE) -> NodeStatus:
    detail = {"error": error} if error else {"waiting": "for mail"}
    return NodeStatus(name, state=state, isAlive=alive, kind=PUMP, detail=detail)


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
