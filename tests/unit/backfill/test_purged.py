"""Pumps' logs whose beginning is gone, and a downstream that would need it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.backfill import pb_logs
from tests.unit.backfill.pump_logs import commit, inserts, prewrite, write
from tidelog.errors import Corrupt, Purged
from tidelog_backfill.files.inputs import Input, found
from tidelog_backfill.files.purged import Gone, check, warnings
from tidelog_backfill.files.survey import survey


def two_pumps(root: Path) -> Input:
    """The segments of each begin with a transaction at 51."""
    for name in ("a", "b"):
        write(root / name, [[], [prewrite(50, inserts([1])), commit(50, 51)]])
    (root / "b" / "value" / "000000.vlog").unlink()
    return found(root / "a", root / "b")


def warned(logs: Input, after_ts: int | None) -> list[str]:
    return list(warnings(logs.gone, [survey(one) for one in logs.chunks()], after_ts))


def test_one_that_says_nothing_of_it_is_warned_of(tmp_path: Path) -> None:
    logs = two_pumps(tmp_path)
    assert logs.gone == [Gone(str(tmp_path / "b" / "value"), 0)]
    check(logs.gone, 0)
    with pytest.raises(Purged, match="nothing says what the downstream holds"):
        check(logs.gone, None)
    (warning,) = warned(logs, 49)
    assert f"{tmp_path}/b/value are gone" in warning
    assert "begins at 51: what they had of changes after 49" in warning
    assert warned(logs, 50) == []
    assert "it has no checkpoint" in warned(logs, None)[0]


def test_a_checkpoint_below_what_a_pump_says_it_purged_stops(tmp_path: Path) -> None:
    two_pumps(tmp_path)
    (tmp_path / "b" / "purged.json").write_bytes(b'{"ts":40,"first":1,"ended":[]}')
    logs = found(tmp_path / "a", tmp_path / "b" / "value")
    assert logs.gone == [Gone(str(tmp_path / "b" / "value"), 40)]
    with pytest.raises(Purged, match="purged up to 40: its changes after 39"):
        check(logs.gone, 39)
    assert "purged up to 40" in warned(logs, 39)[0]
    check(logs.gone, 40)
    assert warned(logs, 40) == []  # nothing was committed from there to what is left


def test_a_record_of_it_that_is_none_is_corrupt(tmp_path: Path) -> None:
    two_pumps(tmp_path)
    (tmp_path / "b" / "purged.json").write_bytes(b"{")
    with pytest.raises(Corrupt, match=r"purged\.json"):
        found(tmp_path / "b")


def test_pb_files_without_their_first_are_warned_of(tmp_path: Path) -> None:
    pb_logs.write(tmp_path, pb_logs.inserted(51, "t", id=1), number=1)
    (warning,) = warned(found(tmp_path), 49)
    assert f"the oldest files of {tmp_path} are gone" in warning
    assert warned(found(tmp_path), 50) == []
    (file,) = tmp_path.iterdir()
    file.rename(tmp_path / file.name.replace("0001-", "0000-"))
    assert warned(found(tmp_path), 49) == []


def test_one_that_is_named_alone_is_warned_of_as_its_directory_is(tmp_path: Path) -> None:
    for number, ts in enumerate((41, 51)):
        pb_logs.write(tmp_path, pb_logs.inserted(ts, "t", id=1), number=number)
    first, second = sorted(tmp_path.iterdir())
    logs = found(second)
    (warning,) = warned(logs, 49)
    assert warning.startswith(f"{second} is read without the files before it")
    assert "begins at 51: what they had of changes after 49" in warning
    assert warned(logs, 50) == []
    with pytest.raises(Purged, match="nothing says what the downstream holds"):
        check(logs.gone, None)
    assert warned(found(first), 39) == []
