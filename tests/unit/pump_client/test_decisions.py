"""What a client knows of its transactions, in memory and in its file."""

from __future__ import annotations

import pytest

from tidelog.errors import Corrupt, Overloaded
from tidelog.ports import Disk, Verdict
from tidelog.pump_client.decisions import decisions as room
from tidelog.pump_client.decisions.decisions import KEEP_S, Decision, Decisions
from tidelog.pump_client.decisions.journal import PATH, Journal
from tidelog.pump_client.decisions.owner import owner_of, prewrite_key
from tidelog.sim import World, run
from tidelog.sim.disk import DiskFaults

UNDECIDED, ROLLED_BACK = Verdict("undecided"), Verdict("rolled_back")


def ask(known: Decisions, start_ts: int, *, ours: bool = True, force: bool = False) -> object:
    return known.verdict(start_ts, is_ours=ours, force=force)


def test_an_open_transaction_is_undecided_until_somebody_forces_it() -> None:
    known = Decisions()
    known.begin(5)
    assert ask(known, 5) == UNDECIDED
    assert ask(known, 5, force=True) == ROLLED_BACK
    assert not known.decide(5), "what was rolled back must not commit"
    assert ask(known, 5) == ROLLED_BACK


def test_a_decision_that_is_being_recorded_is_not_forced() -> None:
    known = Decisions()
    known.begin(5)
    assert known.decide(5)
    assert ask(known, 5, force=True) == UNDECIDED
    known.recorded(Decision(5, 9))
    for force in (False, True):
        assert ask(known, 5, ours=False, force=force) == Verdict("committed", 9)


def test_only_the_owner_presumes() -> None:
    known = Decisions()
    for force in (False, True):
        assert ask(known, 5, force=force) == ROLLED_BACK
        assert ask(known, 5, ours=False, force=force) is None
    assert owner_of(prewrite_key("me")) == "me"
    assert owner_of(b"t\x80\x00_r") == owner_of(b"") == ""


def test_an_acked_decision_is_kept_for_the_pumps_time_out() -> None:
    known = Decisions()
    known.recorded(Decision(5, 9))
    known.acked(5, 100.0)
    known.forget(100.0 + KEEP_S - 1)
    assert ask(known, 5) == Verdict("committed", 9)
    known.forget(100.0 + KEEP_S)
    assert len(known) == 0


def test_what_is_pinned_is_never_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "MAX_ACKED", 2)
    monkeypatch.setattr(room, "MAX_UNACKED", 2)
    pinned = 5
    known = Decisions(lambda: pinned)
    for start_ts in (5, 10, 20, 30):
        known.recorded(Decision(start_ts, start_ts + 1))
    assert (known.floor, ask(known, 5)) == (20, Verdict("committed", 6)), "too many unacked"
    for start_ts in (5, 30):
        known.acked(start_ts, 100.0)
    known.recorded(Decision(40, 41))
    known.acked(40, 100.0)
    assert (len(known), ask(known, 5)) == (2, Verdict("committed", 6)), "too many acked"
    known.forget(100.0 + KEEP_S)
    assert (len(known), ask(known, 5)) == (1, Verdict("committed", 6)), "too long ago"
    pinned = 0
    known.forget(100.0 + 2 * KEEP_S)
    assert len(known) == 0


def test_what_is_open_outlives_the_coordinator() -> None:
    """But for what was being recorded: the file tells of that."""
    known = Decisions()
    for start_ts in (5, 10, 20):
        known.begin(start_ts)
    for start_ts in (10, 20):
        assert known.decide(start_ts)
        known.end(start_ts)
        assert ask(known, start_ts, force=True) == UNDECIDED, "it may be in the file"
    known.load([Decision(10, 11)], 0)
    assert [ask(known, start_ts) for start_ts in (5, 10, 20)] == [
        UNDECIDED,
        Verdict("committed", 11),
        ROLLED_BACK,
    ]
    assert known.decide(5)


def test_open_transactions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "MAX_OPEN", 2)
    known = Decisions()
    known.begin(1)
    known.begin(2)
    with pytest.raises(Overloaded):
        known.begin(3)
    known.end(1)
    known.begin(3)


def test_below_what_was_dropped_unacked_nothing_is_presumed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(room, "MAX_UNACKED", 2)
    known = Decisions()
    for start_ts in (10, 20, 30):
        known.recorded(Decision(start_ts, start_ts + 1))
    assert known.floor == 10
    for start_ts in (9, 10):
        assert ask(known, start_ts, force=True) is None
    assert ask(known, 11) == ROLLED_BACK
    assert ask(known, 20) == Verdict("committed", 21)


def test_a_later_life_drops_the_oldest_not_what_was_acked_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The floor would be above what was open when the writer died: silence for each of those."""
    monkeypatch.setattr(room, "MAX_UNACKED", 100)
    known = Decisions()
    known.load([Decision(2 * n, 2 * n + 1) for n in range(1, 101)], 0)
    known.begin(300)
    for start_ts in range(302, 322, 2):
        known.begin(start_ts)
        assert known.decide(start_ts)
        known.recorded(Decision(start_ts, start_ts + 1))
        known.acked(start_ts, 0.0)
    later = Decisions()
    later.load(known.kept(), known.floor)
    assert later.floor < 300
    assert ask(later, 300, force=True) == ROLLED_BACK
    assert ask(later, 320) == Verdict("committed", 321)


async def _opened(disk: Disk, name: str = "new") -> tuple[Journal, list[Decision]]:
    journal = Journal(disk, name)
    return journal, await journal.open()


def test_the_file_keeps_decisions_name_and_floor() -> None:
    async def main(world: World) -> None:
        disk = world.ports().disk
        journal, found = await _opened(disk, "first")
        assert found == []
        await journal.append([Decision(1, 2), Decision(3, 4)])
        await journal.append([Decision(5, 6)])
        journal.close()
        journal, found = await _opened(disk)
        assert (found, journal.owner) == ([Decision(1, 2), Decision(3, 4), Decision(5, 6)], "first")
        await journal.make_anew([Decision(5, 6)], 3)
        await journal.append([Decision(7, 8)])
        journal.close()
        journal, found = await _opened(disk)
        assert (found, journal.owner, journal.floor) == (
            [Decision(5, 6), Decision(7, 8)],
            "first",
            3,
        )

    run(main)


@pytest.mark.parametrize("seed", range(30))
def test_a_power_loss_takes_nothing_that_was_recorded(seed: int) -> None:
    async def main(world: World) -> None:
        node = world.node("app", disk=DiskFaults())
        recorded: list[Decision] = []
        for life in range(4):
            journal, found = await _opened(node.ports().disk)
            assert found[: len(recorded)] == recorded
            recorded = list(found)
            for number in range(1, 4):
                decision = Decision(life * 10 + number, life * 10 + number + 5)
                await journal.append([decision])
                recorded.append(decision)
            node.kill()

    run(main, seed)


def test_a_torn_tail_is_cut_and_a_bad_record_before_it_stops() -> None:
    async def main(world: World) -> None:
        disk = world.ports().disk
        journal, _ = await _opened(disk)
        await journal.append([Decision(1, 2)])
        await journal.append([Decision(3, 4)])
        journal.close()
        whole = disk.read_file(PATH)
        await disk.write_file(PATH, whole + whole[-20:])
        journal, found = await _opened(disk)
        assert found == [Decision(1, 2), Decision(3, 4)]
        await journal.append([Decision(5, 6)])
        journal.close()
        await disk.write_file(PATH, disk.read_file(PATH)[:-3])
        with pytest.raises(Corrupt):
            await _opened(disk)

    run(main)
