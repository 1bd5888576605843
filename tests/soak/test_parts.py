"""A soak in parts: a later one goes on where the one before it ended, and only from there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.soak.run import arguments, ended, too_little
from tests.soak.so_far import FILE, TOPOLOGY, Asked, NotToBeContinued, SoFar, save, take
from tests.soak.test_slopes import topology

ASKED = Asked(180.0, 500.0, 30.0)


def test_the_next_part_goes_on_with_what_was_seen_before(tmp_path: Path) -> None:
    first = take(tmp_path, ASKED, 7)
    topology(tmp_path, first).look()
    first.seconds, first.read, first.committed = 60.0, 5, 5
    first.commits.append("c1")
    first.kills.append(("nats", 1.5))
    save(tmp_path, first)
    later = take(tmp_path, ASKED, 8)
    assert later == first
    topology(tmp_path, later).look()
    before, after = later.rss["pump-1"]
    assert (before.life, after.life) == (0, 1)
    assert before.at_s < 60 <= after.at_s


def test_what_follows_a_part_that_was_broken_off_proves_nothing(tmp_path: Path) -> None:
    save(tmp_path, SoFar(seed=7, asked=ASKED))
    (tmp_path / TOPOLOGY).mkdir()
    take(tmp_path, ASKED, 7)
    assert not (tmp_path / FILE).exists()
    with pytest.raises(NotToBeContinued, match="begin elsewhere"):
        take(tmp_path, ASKED, 7)


def test_one_that_is_whole_or_another_one_is_not_continued(tmp_path: Path) -> None:
    save(tmp_path, SoFar(seed=7, asked=ASKED, seconds=60.0))
    for other in (Asked(60.0, 500.0, 30.0), Asked(180.0, 1.0, 30.0), Asked(180.0, 500.0, 99.0)):
        with pytest.raises(NotToBeContinued, match="is another one"):
            take(tmp_path, other, 7)
    save(tmp_path, SoFar(seed=7, asked=ASKED, seconds=180.0))
    with pytest.raises(NotToBeContinued, match="is whole"):
        take(tmp_path, ASKED, 7)
    assert (tmp_path / FILE).exists()


def test_only_the_last_part_says_that_nothing_was_lost(capsys: pytest.CaptureFixture[str]) -> None:
    so_far = SoFar(seed=7, asked=ASKED, seconds=60.0, commits=["c1", "c2"], read=5, committed=5)
    assert ended(so_far, ["nats grows"], ["up"]) == os.EX_TEMPFAIL
    assert "1 of 3 minutes" in (said := capsys.readouterr().out)
    assert "lost" not in said
    so_far.seconds = 180.0
    assert ended(so_far, [], ["nats", "up"]) == 0
    assert "soak: 5 cases, 0 lost" in (said := capsys.readouterr().out)
    assert "(3 minutes in parts of c1, c2, 0 kills, seed 7, growth of nats, up within" in said
    assert ended(so_far, ["nats grows"], []) == 1
    assert "1 WRONG" in capsys.readouterr().out
    so_far.wrong.append("4 committed, and 3 were read")
    so_far.seconds = 60.0
    assert ended(so_far, [], []) == 1
    assert "1 WRONG" in capsys.readouterr().out


def test_too_few_kills_or_transactions_prove_nothing() -> None:
    so_far = SoFar(seed=7, asked=ASKED, seconds=180.0, committed=90_000)
    assert too_little(so_far, 500) == ["0 kills are too few: 5 are wanted"]
    so_far.kills = [("nats", 1.0)] * 6
    assert too_little(so_far, 500) == []
    assert too_little(so_far, 501) == ["500 transactions a second are too few"]


def test_a_part_needs_a_directory() -> None:
    with pytest.raises(SystemExit):
        arguments(["--minutes", "3", "--part", "1"])
    assert arguments(["--minutes", "3", "--part", "1", "--dir", "kept"]).dir == Path("kept")
