"""The fuzzer itself: it sees what it is there for. `make fuzz` is the run."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz import atheris_targets, intruders, run, strangers
from tests.fuzz.surface import Surface
from tests.simulation.cluster import History, play
from tidelog.errors import BadInput
from tidelog_pump.edges.nats_edge import NatsEdge

FOUND = run.surfaces()
STANDS = 15
"""A seed whose stranger's message no reader gets past."""


def typed(data: bytes) -> object:
    if data[:1] == b"{":
        return len(data)
    raise BadInput("no")


def surface(feed: object) -> Surface:
    assert callable(feed)
    return Surface("planted", "json", [b'{"a":1}', b'{"b":[2]}'], feed)


@pytest.fixture(autouse=True)
def kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def test_typed_errors_are_right() -> None:
    tally = run.fuzz(surface(typed), 300, 1)
    assert not tally.wrong
    assert tally.outcomes["taken"] > 50 < tally.outcomes["BadInput"]


def test_another_error_is_seen_and_its_input_kept(tmp_path: Path) -> None:
    def feed(data: bytes) -> object:
        if len(data) > 12:
            raise KeyError("nobody has thought of it")
        return typed(data)

    tally = run.fuzz(surface(feed), 300, 1)
    assert tally.wrong
    kept = sorted(tmp_path.glob("fuzz-*.input"))
    assert len(kept) == len(tally.wrong)
    with pytest.raises(KeyError):
        feed(kept[0].read_bytes())


def test_what_does_not_end_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "INPUT_S", 0.05)

    def feed(data: bytes) -> object:
        while data[:1] != b"{":
            pass
        return None

    tally = run.fuzz(surface(feed), 20, 3)
    assert any("more than" in wrong for wrong in tally.wrong)


def test_what_is_understood_otherwise_afterwards_is_seen() -> None:
    seen: list[bytes] = []

    def feed(data: bytes) -> object:
        seen.append(data)
        return len(seen)

    assert run.fuzz(surface(feed), 5, 1).wrong


def test_growth_is_seen() -> None:
    held: list[bytearray] = []

    def feed(data: bytes) -> object:
        held.append(bytearray(1 << 20))
        return None

    assert any("grew" in wrong for wrong in run.run([surface(feed)], 100, 1).wrong)


@pytest.mark.parametrize("one", FOUND, ids=lambda one: one.name)
def test_every_surface_takes_its_seeds_and_a_few_inputs(one: Surface) -> None:
    outcomes = [one.outcome(seed) for seed in one.seeds[:20]]
    assert any(not isinstance(outcome, type) for outcome in outcomes), "no seed is right"
    assert run.fuzz(one, 100, 9).wrong == []


def test_a_stranger_among_services() -> None:
    talked = strangers.talk(400, 3)
    assert talked.wrong == []
    assert talked.inputs == 400
    assert {"UnparsablePayload", "BadInput", "answered"} <= set(talked.answers)
    asked = {door.subject for door in strangers.doors()}
    assert len(asked) > 18


def test_a_stranger_in_the_stream() -> None:
    outcomes, wrong = intruders.intrusions(range(2))
    assert wrong == []
    assert outcomes.total() == 2


def test_a_feed_that_stands_at_a_stranger_s_message_says_so() -> None:
    stands = intruders.intrude(STANDS)
    assert stands.wrong == []
    assert stands.outcome == "stands, and says so"
    assert any("`messages`" in one for one in stands.says)


def test_a_feed_that_stands_in_silence_is_seen_and_so_is_all_that_is_not_of_its_standing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Being behind is excused, and nothing else."""

    def worse(*args: Any, **more: Any) -> History:
        history = play(*args, **more)
        assert len(history.findings.other) > 3
        history.findings.rules.append("a rule is broken")
        history.findings.other.append("rows for ('d', 't1'), which does not exist")
        history.findings.loss.append("one is lost")
        return history

    monkeypatch.setattr(intruders, "play", worse)
    monkeypatch.setattr(intruders, "complaints", lambda nodes: [])
    assert sorted(intruders.intrude(STANDS).wrong) == [
        "a rule is broken",
        "it stands still, and nobody says why",
        "one is lost",
        "rows for ('d', 't1'), which does not exist",
    ]


def test_a_question_that_is_not_answered_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    async def forgets(self: NatsEdge, _request: object) -> None:
        self._questions -= 1

    monkeypatch.setattr(NatsEdge, "_answer", forgets)
    assert any("gave no answer" in wrong for wrong in strangers.talk(100, 3).wrong)


@pytest.mark.parametrize("name", atheris_targets.TARGETS)
def test_what_libfuzzer_would_feed_is_taken(name: str) -> None:
    feed, seeds = atheris_targets.target(name)
    assert seeds
    for seed in seeds:
        feed(seed)
