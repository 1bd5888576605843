"""A soak in parts: a later one goes on where the one before it ended, and only from there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.soak.run import arguments, ended
from tests.soak.so_far import FILE, TOPOLOGY, BrokenOff, SoFar, save, take
from tests.soak.test_slopes import topology


def test_the_next_part_goes_on_with_what_was_seen_before(tmp_path: Path) -> None:
    first = take(tmp_path, 7)
    topology(tmp_path, first).look()
    first.seconds, first.parts, first.read, first.committed = 60.0, 1, 5, 5
    first.kills.append(("nats", 1.5))
    save(tmp_path, first)
    later = take(tmp_path, 8)
    assert later == first
    topology(tmp_path, later).look()
    before, after = later.rss["pump-1"]
    assert (before.life, after.life) == (0, 1)
    assert before.at_s < 60 <= after.at_s


def test_what_follows_a_part_that_was_broken_off_proves_nothing(tmp_path: Path) -> None:
    save(tmp_path, SoFar(seed=7))
    (tmp_path / TOPOLOGY).mkdir()
    take(tmp_path, 7)
    assert not (tmp_path / FILE).exists()
    with pytest.raises(BrokenOff, match="another directory"):
        take(tmp_path, 7)


def test_only_the_last_part_says_that_nothing_was_lost(capsys: pytest.CaptureFixture[str]) -> None:
    so_far = SoFar(seed=7, seconds=60.0, parts=2, read=5, committed=5)
    assert ended(so_far, 3, ["nats grows"]) == os.EX_TEMPFAIL
    assert "1 of 3 minutes" in (said := capsys.readouterr().out)
    assert "lost" not in said
    assert ended(so_far, 1, []) == 0
    assert "soak: 5 cases, 0 lost" in (said := capsys.readouterr().out)
    assert "2 parts" in said
    assert ended(so_far, 1, ["nats grows"]) == 1
    assert "1 WRONG" in capsys.readouterr().out
    so_far.wrong.append("4 committed, and 3 were read")
    assert ended(so_far, 3, []) == 1
    assert "1 WRONG" in capsys.readouterr().out


def test_a_part_needs_a_directory() -> None:
    with pytest.raises(SystemExit):
        arguments(["--minutes", "3", "--part", "1"])
    assert arguments(["--minutes", "3", "--part", "1", "--dir", "kept"]).dir == Path("kept")
