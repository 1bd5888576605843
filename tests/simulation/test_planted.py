"""The planted bugs' own machinery: what counts as caught, and what a schedule must do to count."""

from __future__ import annotations

import pytest

from tests.planted import director
from tests.planted.bugs import BUGS
from tests.planted.director import Director, Step, When
from tests.planted.killed import KILLS
from tests.planted.noticed import TESTS
from tests.planted.record import load_all
from tests.planted.schedules import SCHEDULES, calm
from tests.quiet import quiet
from tests.simulation.cluster import Cluster, play
from tests.simulation.contents import Row, name_differences
from tests.simulation.run import KINDS
from tidelog.rows.values import T_VARCHAR
from tidelog.schema.model import ColumnInfo, FieldType, Name
from tidelog.sim.checker import Findings
from tidelog.sim.trace import Event
from tidelog.workload.source import Contents, TableContents
from tidelog_proto.binlog_pb2 import Binlog, BinlogType
from tidelog_proto.transport_pb2 import WriteBatch

FEWEST = 30
"""Planted bugs that there have to be."""


@pytest.fixture(autouse=True, scope="module")
def _quiet() -> None:
    quiet()


def test_each_bug_is_played_once_by_its_schedule_or_its_test() -> None:
    names = [bug.name for bug in BUGS]
    assert len(names) == len(set(names)) >= FEWEST
    assert sorted(names) == sorted(catch.bug for catch in (*SCHEDULES, *TESTS))
    assert {kill.bug for kill in KILLS} <= set(names)


def test_a_rig_that_is_stuck_shows_no_bug() -> None:
    stuck = "nothing comes for 90.0 s: registry: {'losses': 0}\npump-1: {'gc': {'lost': []}}\n"
    assert not [kill.bug for kill in KILLS if kill.shown_by(stuck) or kill.shown_by("")]
    assert KILLS[0].shown_by("lost: 7, acked at 9; read up to 10")


def test_a_schedule_finds_a_kind_that_counts_or_says_what_it_finds() -> None:
    assert [s.bug for s in SCHEDULES if s.finds not in KINDS and not s.says] == []
    assert {schedule.finds for schedule in SCHEDULES} <= {*KINDS, "other"}


def test_each_was_caught_and_those_that_are_hunted_by_a_seed() -> None:
    records = load_all()
    assert [bug.name for bug in BUGS if not records[bug.name].caught] == []
    hunts = {name for name, record in records.items() if record.hunt is not None}
    assert hunts == {bug.name for bug in BUGS if bug.hunted}
    assert records.keys() == {bug.name for bug in BUGS}


def test_a_watcher_that_does_nothing_changes_nothing() -> None:
    directed = play(4, prepare=lambda cluster: Director(cluster, ()))
    assert directed.digest == play(4).digest


def test_a_step_whose_event_does_not_come_is_told() -> None:
    directors: list[Director] = []
    never = (Step(When("pump-1", "write", "backwards"), ()),) * 2

    def prepare(cluster: Cluster) -> None:
        directors.append(Director(cluster, never))

    assert play(1, plan=calm(1, transactions=5), prepare=prepare).findings.clean
    assert directors[0].left == 2


@pytest.mark.parametrize(
    "action",
    [
        director.PowerLoss("pump-2"),
        director.PowerLoss("pump-9"),
        director.Start("pump-1"),
        director.Stall("pump-1", "pump.nobody", 1.0),
        director.LoseFile("registry", "no.json"),
        director.AcceptLoss("pump-1"),
    ],
    ids=str,
)
def test_an_action_with_nothing_to_do_it_to_is_a_finding(action: director.Action) -> None:
    steps = (Step(When("", "request", ".pump-1.write", binlog="Prewrite"), (action,)),)
    plan = calm(1, transactions=20, clients=1, late=1)
    history = play(1, plan=plan, prepare=lambda cluster: Director(cluster, steps))
    (finding,) = history.findings.other
    assert action.node in finding  # type: ignore[attr-defined]


def test_steps_are_taken_in_order_at_each_nth_event() -> None:
    done: list[str] = []

    class Note(director.Action):
        def __init__(self, what: str) -> None:
            self.what = what

        def perform(self, cluster: Cluster) -> None:
            done.append(f"{self.what} at {cluster.workload.counts.started}")

    ack = When("workload", "answered", ".write", binlog="Prewrite")
    steps = (Step(ack, (Note("a"),), nth=3, times=2), Step(ack, (Note("b"),)))
    plan = calm(1, transactions=9, clients=1)
    play(1, plan=plan, prepare=lambda cluster: Director(cluster, steps))
    assert done == ["a at 3", "a at 6", "b at 7"]


def test_an_event_fits_by_what_its_message_carries() -> None:
    commit = Binlog(tp=BinlogType.Commit, start_ts=1, commit_ts=2).SerializeToString()
    batch = WriteBatch(payloads=[b"", commit]).SerializeToString()
    event = Event("w", "request", "tidelog.c.pump.pump-1.write 9", batch)
    assert When("w", "request", ".pump-1.write", binlog="Commit").fits(event)
    assert When("", "request").fits(event)
    assert not When("w", "request", ".pump-1.write", binlog="Prewrite").fits(event)
    assert not When("w", "request", ".pump-2.write").fits(event)
    assert not When("other", "request").fits(event)


def _kinds(wanted: list[Row], found: list[Row] | None, *others: str) -> list[str]:
    column = ColumnInfo(1, Name("v", "v"), 0, FieldType(Tp=T_VARCHAR))
    findings = Findings()
    source = Contents(1, [TableContents("db", "t", [column], wanted)])
    tables = [("db", name) for name in ("t", *others)]
    name_differences(findings, source, tables, lambda db, table: found)
    return [kind for kind, lines in findings.kinds().items() for _ in lines]


def test_the_contents_tell_a_loss_from_a_duplicate_and_from_the_rest() -> None:
    a: Row = {"v": "a"}
    b: Row = {"v": "b"}
    c: Row = {"v": "c"}
    assert _kinds([a, b], [b, a]) == []
    assert _kinds([a, b, b], [b]) == ["loss"]
    assert _kinds([a, b], [a, b, b]) == ["duplicate"]
    assert _kinds([a, b], [b, b]) == ["loss", "duplicate"]
    # Another value, or a row that should be gone: it can be either's consequence.
    assert _kinds([a, b], [a, c]) == ["other"]
    assert _kinds([a], [a, c]) == ["other"]
    assert _kinds([a], None) == ["other"]
    assert _kinds([a], [{"w": "a"}]) == ["other"]
    assert _kinds([a], [a], "dropped upstream") == ["other"]
