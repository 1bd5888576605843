"""Counts the steps of state machines, so that a run which did too few of them fails."""

from __future__ import annotations

from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, run_state_machine_as_test

STEPS = 50


class CountedMachine(RuleBasedStateMachine):
    """Every subclass counts its own."""

    done = 0

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.done = 0

    @invariant()
    def a_step_is_done(self) -> None:
        type(self).done += 1


def play(machine: type[CountedMachine], *, at_least: int) -> None:
    """Examples of STEPS steps each, half as many again as needed: some end early."""
    examples = at_least * 3 // 2 // STEPS
    machine.done = 0
    run_state_machine_as_test(
        machine,
        settings=settings(max_examples=examples, stateful_step_count=STEPS, deadline=None),
    )
    print(f"{machine.__name__}: {machine.done} steps")
    assert machine.done >= at_least
