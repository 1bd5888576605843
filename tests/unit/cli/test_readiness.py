"""What `up` says while its start waits, and later of its nodes: each thing once, in time."""

from __future__ import annotations

from tidelog.messages import CLOSING, JOINING, OFFLINE, ONLINE, PAUSED, PUMP, NodeStatus
from tidelog_cli.readiness import SAY_S, Teller, holds_up, kept_out, missing


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
