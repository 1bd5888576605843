"""How far a Spark job is, by its stages."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidelog_backfill.watching import StageTasks, fraction

STAGES = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)).map(lambda t: StageTasks(*t)))


def test_each_stage_counts_the_same() -> None:
    assert fraction([]) == 0
    assert fraction([StageTasks(0, 0)]) == 0
    assert fraction([StageTasks(16, 16), StageTasks(0, 4)]) == 0.5
    assert fraction([StageTasks(16, 16), StageTasks(3, 4)]) == 0.875


@given(STAGES)
def test_it_is_between_nothing_and_all(stages: list[StageTasks]) -> None:
    """Also where a stage that was tried again has ended more tasks than it has."""
    assert 0 <= fraction(stages) <= 1


@given(STAGES)
def test_it_is_all_only_when_every_task_is_done(stages: list[StageTasks]) -> None:
    real = [one for one in stages if one.total]
    is_all = bool(real) and all(one.done >= one.total for one in real)
    assert (fraction(stages) == 1) == is_all


@given(STAGES, st.data())
def test_one_more_task_is_further(stages: list[StageTasks], data: st.DataObject) -> None:
    open_stages = [n for n, one in enumerate(stages) if one.done < one.total]
    if open_stages:
        at = data.draw(st.sampled_from(open_stages))
        done, total = stages[at]
        after = [*stages[:at], StageTasks(done + 1, total), *stages[at + 1 :]]
        assert fraction(after) > fraction(stages)
