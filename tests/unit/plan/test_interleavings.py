"""Whatever lanes do first, the downstream comes out as in upstream order."""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.plan.toy import Downstream, Lanes, Row, Step, Toy, Upstream
from tidelog.changes import Event
from tidelog.plan.events import TableEvents

NUMBERS: list[Any] = [1, 2, 3, 4, 5]
TEXTS: list[Any] = ["a", "A", "b", "B ", "b", "c", "d", "e"]
RARE: list[Any] = ["é", "E"]
EXAMPLES = 1500

CHOICE = st.randoms(use_true_random=True)
"""Histories by a seed: far more of them do something than of shrinkable ones."""
Window = tuple[int, list[Event]]
"""Where it begins, and its events."""


def value(rng: Random, toy: Toy) -> Any:
    if not toy.text:
        return rng.choice(NUMBERS)
    return rng.choice(RARE if rng.random() < toy.rare else TEXTS)


def row(rng: Random, toy: Toy) -> Row:
    a, b = (None if rng.random() < 0.2 else value(rng, toy) for _ in range(2))
    return {"id": value(rng, toy), "a": a, "b": b, "v": rng.randrange(1000)}


def change(rng: Random, toy: Toy, upstream: Upstream, commit_ts: int) -> Event | None:
    luck = rng.random()
    if not upstream.rows or luck < 0.35:
        return upstream.insert(row(rng, toy), commit_ts)
    key = rng.choice(list(upstream.rows))
    if luck < 0.55:
        return upstream.delete(key, commit_ts)
    new = row(rng, toy)
    names = [name for name in ("id", "a", "b") if rng.random() < 0.4]
    return upstream.update(key, {name: new[name] for name in [*names, "v"]}, commit_ts)


def history(rng: Random, toy: Toy) -> tuple[dict[Any, Row], list[Event], Upstream]:
    """Rows from before, what happened then (commit_ts = number of its transaction), the end."""
    upstream = Upstream(toy)
    for _ in range(rng.randrange(5)):
        upstream.insert(row(rng, toy), 0)
    before = dict(upstream.rows)
    events: list[Event] = []
    commit_ts = 1
    for _ in range(rng.randrange(30)):
        event = change(rng, toy, upstream, commit_ts)
        events += [event] if event is not None else []
        commit_ts += rng.random() < 0.5
    return before, events, upstream


def windows(rng: Random, events: list[Event]) -> list[Window]:
    """Cut anywhere, also inside a transaction."""
    longest = rng.choice([1, 2, 3, 8])
    out: list[Window] = []
    low = 0
    while low < len(events):
        high = low + rng.randint(1, longest)
        out.append((low, events[low:high]))
        low = high
    return out


def run(rng: Random, lanes: Lanes, toy: Toy, ahead: list[Window], *, stop: float = 0.0) -> int:
    """Plan windows and let lanes write, some lanes rarely; until all are planned, or it is stopped.
    Returns how many were planned."""
    structure, rule = toy.structure, toy.rule
    eager = rng.choice([0.2, 0.5, 0.9])
    slow = rng.randrange(8)
    for planned, (begins, events) in enumerate(ahead):
        while rng.random() > eager:
            choice = rng.randrange(8)
            lanes.write_one(choice + (choice == slow))
        if rng.random() < stop:
            return planned
        lanes.plan([TableEvents("d", structure, rule, events)], begins)
    return len(ahead)


def finish(rng: Random, lanes: Lanes) -> None:
    first = rng.randrange(8)
    while any(lanes.queues):
        lanes.write_one(first if rng.random() < 0.9 else rng.randrange(8))


@settings(max_examples=EXAMPLES, deadline=None)
@given(CHOICE, st.builds(Toy, st.integers(1, 3), st.booleans()), st.integers(1, 4))
def test_any_order_of_lanes_comes_to_the_serial_end(rng: Random, toy: Toy, count: int) -> None:
    before, events, upstream = history(rng, toy)
    lanes = Lanes(Downstream(toy, before), count)
    run(rng, lanes, toy, windows(rng, events))
    finish(rng, lanes)
    assert lanes.downstream.shown() == Downstream(toy, upstream.rows).shown()
    assert count > 1 or not lanes.flushes
    assert toy.keys > 1 or toy.text or not lanes.flushes


@settings(max_examples=EXAMPLES, deadline=None)
@given(CHOICE, st.builds(Toy, st.integers(1, 3), st.booleans()), st.integers(1, 4))
def test_a_second_attempt_after_a_crash_comes_to_the_same(
    rng: Random, toy: Toy, count: int
) -> None:
    """With other lanes and other windows, from the last transaction below what was not applied."""
    before, events, upstream = history(rng, toy)
    first = Lanes(Downstream(toy, before), count)
    ahead = windows(rng, events)
    planned = run(rng, first, toy, ahead, stop=0.2)
    reached = ahead[planned][0] if planned < len(ahead) else len(events)
    begin = min([reached, *first.bounds.values()])
    while 0 < begin < len(events) and events[begin].commit_ts == events[begin - 1].commit_ts:
        begin -= 1
    second = Lanes(first.downstream, rng.randint(1, 4), safe=True)
    run(rng, second, toy, windows(rng, events[begin:]))
    finish(rng, second)
    assert second.downstream.shown() == Downstream(toy, upstream.rows).shown()


@settings(max_examples=EXAMPLES, deadline=None)
@given(CHOICE, st.booleans(), st.integers(1, 4))
def test_rows_that_may_not_be_replaced_keep_what_only_the_downstream_has(
    rng: Random, text: bool, count: int
) -> None:
    toy = Toy(1, text, replaceable=False)
    before, events, _ = history(rng, toy)
    serial = Downstream(toy, before)
    for event in events:
        serial.write(Step("event", event.before or {}, event.after or {}, False))
    lanes = Lanes(Downstream(toy, before), count)
    run(rng, lanes, toy, windows(rng, events))
    finish(rng, lanes)
    assert lanes.downstream.shown() == serial.shown()
