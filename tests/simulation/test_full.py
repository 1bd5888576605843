"""The running total: what is played next, and what of it is kept."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commit import ROOT
from tests.simulation import full, reach
from tests.simulation.cluster import History
from tests.simulation.full import Block, Played
from tidelog.sim.checker import Findings


def _block(first: int, to: int, found: dict[int, dict[str, int]] | None = None) -> Block:
    return Block(
        first=first,
        to=to,
        commit="c",
        date="2026-11-23",
        transactions=7 * (to - first),
        faults=0,
        virtual_s=0,
        found=found or {},
    )


def test_blocks_fill_what_nobody_played() -> None:
    played = Played([_block(250, 300), _block(0, 100)])
    assert played.histories == 150
    assert list(played.gaps(320)) == [range(100, 200), range(200, 250), range(300, 320)]
    assert list(played.gaps(150)) == []
    assert list(Played().gaps(150)) == [range(100), range(100, 150)]
    assert list(played.gaps(320, 270)) == [range(300, 400), range(400, 470)]


class Histories:
    """Played in no time; seed 42 finds a loss, and somebody ends it all at a seed."""

    def __init__(self, ends_at: int) -> None:
        self.ends_at = ends_at
        self.seed_42_is_mended = False

    def play(self, seed: int) -> History:
        history = History(seed, transactions=2, faults=3, reached=Counter(["kill pump"]))
        if seed == 42 and not self.seed_42_is_mended:
            history.findings = Findings(loss=["a", "b"])
        return history

    def many(self, seeds: range, jobs: int) -> Iterator[History]:
        for seed in seeds:
            if seed == self.ends_at:
                raise KeyboardInterrupt
            yield self.play(seed)

    def instead_of(self, patch: pytest.MonkeyPatch) -> Histories:
        """Of those that would be played."""
        patch.setattr(full, "histories", self.many)
        patch.setattr(full, "play", self.play)
        patch.setattr(full, "differing", lambda first, jobs: [])
        return self


def test_it_can_be_ended_goes_on_and_tells_what_was_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake, path = Histories(250).instead_of(monkeypatch), tmp_path / "played.json"
    monkeypatch.setattr(reach, "ENOUGH", 351)  # they reach one thing
    line = "simulation: {0} histories, {1} transactions, {2} faults, {3} lost"
    arguments = ["--to", "350", "--least", "150", "--record", str(path)]
    assert full.main(arguments) == 1
    assert capsys.readouterr().out.splitlines()[-1] == line.format(200, 400, 600, 2)
    assert full.read(path).blocks[0].found == {42: {"loss": 2}}

    fake.ends_at, fake.seed_42_is_mended = 1000, True
    assert full.main(arguments) == 0
    *_, unexplained, total, last = capsys.readouterr().out.splitlines()
    zeros = "0 lost, 0 duplicated, 0 out of order"
    assert last.endswith(zeros)
    assert last.startswith(line.format(150, 300, 450, 0))
    assert total == f"so far, {last}".replace(
        line.format(150, 300, 450, 0), line.format(350, 700, 1050, 0)
    )
    assert unexplained.endswith("nobody wrote down why: [42]")
    kept = full.read(path)
    assert [(block.first, block.to) for block in kept.blocks] == [
        (0, 100),
        (100, 200),
        (200, 300),
        (300, 350),
    ]
    assert 42 in kept.blocks[0].mended
    assert kept.reached == {"kill pump": 350}


def test_an_older_seed_that_still_finds_something_is_told_in_the_last_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "played.json"
    Histories(1000).instead_of(monkeypatch)
    monkeypatch.setattr(reach, "ENOUGH", 351)
    full.write(Played([_block(0, 100, {42: {"loss": 2}})]), path)
    assert full.main(["--to", "200", "--least", "100", "--record", str(path)]) == 1
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == "simulation: 100 histories, 200 transactions, 300 faults, 2 lost"


@pytest.mark.parametrize(
    ("to", "seconds", "told"),
    [
        ("100", "9", "simulation: 0 histories, 0 transactions, 0 faults, NOTHING WAS TRIED"),
        ("350", "-1", "simulation: 0 histories, 0 transactions, 0 faults, NOTHING WAS TRIED"),
        (
            "200",
            "9",
            "simulation: 100 histories, 200 transactions, 300 faults, 900 FEWER THAN ASKED FOR",
        ),
    ],
)
def test_a_run_that_plays_fewer_than_asked_for_fails_whatever_was_played_before(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    to: str,
    seconds: str,
    told: str,
) -> None:
    path = tmp_path / "played.json"
    Histories(1000).instead_of(monkeypatch)
    monkeypatch.setattr(reach, "ENOUGH", 351)
    full.write(Played([_block(0, 100)]), path)
    assert full.main(["--to", to, "--seconds", seconds, "--record", str(path)]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == told


def test_what_this_run_did_not_reach_is_told_and_fails_only_where_all_together_did_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "played.json"
    Histories(1000).instead_of(monkeypatch)
    monkeypatch.setattr(reach, "ENOUGH", 100)
    monkeypatch.setattr(reach, "EXCUSED", {})
    monkeypatch.setattr(reach, "wanted", lambda: ("kill pump", "gap"))
    full.write(Played([_block(0, 100)], {"gap": 1}), path)
    arguments = ["--least", "100", "--record", str(path)]
    assert full.main(["--to", "200", *arguments]) == 0
    told = capsys.readouterr().out.splitlines()
    assert "not reached now: gap" in told

    full.write(Played([_block(0, 100)]), path)
    assert full.main(["--to", "200", *arguments]) == 1
    told = capsys.readouterr().out.splitlines()
    assert "NOT REACHED BY ALL: gap" in told
    assert told[-1].endswith("1 never reached")


def test_what_another_machine_played_is_added_and_nothing_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ours, theirs = tmp_path / "ours.json", tmp_path / "theirs.json"
    full.write(Played([_block(0, 100)], {"kill pump": 3}), ours)
    full.write(Played([_block(500, 600)], {"kill pump": 2, "gap": 1}, {7: "test_it"}), theirs)
    arguments = ["--to", "200", "--record", str(ours), "--add", str(theirs)]
    full.main(arguments)
    assert "200 histories, 1400 transactions" in capsys.readouterr().out
    assert full.read(ours).reached == {"kill pump": 5, "gap": 1}
    assert full.read(ours).by == {7: "test_it"}
    with pytest.raises(ValueError, match=r"500\.\.600 are in both"):
        full.main(arguments)


def test_the_record_can_be_read_and_no_seed_is_in_it_twice() -> None:
    played = full.read(full.RECORD)
    seeds = [seed for block in played.blocks for seed in range(block.first, block.to)]
    assert len(seeds) == len(set(seeds)) == played.histories


def test_what_mended_a_seed_is_a_commit_or_a_test_that_is_there() -> None:
    played = full.read(full.RECORD)
    assert played.by.keys() <= {seed for block in played.blocks for seed in block.mended}
    sources = [path.read_text() for path in (ROOT / "tests").rglob("test_*.py")]
    for by in played.by.values():
        assert re.fullmatch(r"[0-9a-f]{7}", by) or any(f"def {by}(" in text for text in sources)
