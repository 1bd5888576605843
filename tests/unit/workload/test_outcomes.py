"""What became of transactions that were decided long before a Pump asks."""

from __future__ import annotations

from tidelog.workload.outcomes import Outcomes


def test_what_was_decided_is_never_told_otherwise_however_late_a_pump_asks() -> None:
    """The Pump was away meanwhile, and others took 2^18 transactions."""
    outcomes = Outcomes(limit=2)
    outcomes.first_ts = 1
    for start_ts in (5, 7, 9, 11):
        outcomes.begin(start_ts)
        assert outcomes.commit(start_ts, start_ts + 1)
        if start_ts == 5:
            outcomes.abandon(start_ts)
    assert outcomes.unasked() == 1
    verdict = outcomes.verdict(5, force=True)
    assert (verdict.state, verdict.commit_ts) == ("committed", 6), "its client is dead"
    assert outcomes.unasked() == 0
    assert outcomes.verdict(7, force=True).state == "undecided", "its Commit is on its way"
