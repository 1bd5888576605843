"""Reading pb_binlog files in order: directories, packed files, torn ends, gaps."""

from __future__ import annotations

import gzip
import tarfile
from pathlib import Path

import pytest

from tests.unit.backfill.pb_logs import inserted, write
from tidelog.errors import BadInput, Corrupt
from tidelog.pb_files.names import SAVEPOINT
from tidelog.pb_files.reader import binlogs
from tidelog.pb_files.savepoint import Savepoint, dump


def commits(path: Path, after_ts: int = 0) -> list[int]:
    return [binlog.commit_ts for binlog in binlogs(path, after_ts)]


def of(directory: Path, *commit_ts: int, number: int = 0) -> Path:
    return write(directory, *(inserted(ts, "t", a=1) for ts in commit_ts), number=number)


def test_files_come_in_order_and_those_before_the_position_are_not_opened(tmp_path: Path) -> None:
    first = of(tmp_path, 1, 2)
    of(tmp_path, 3, 4, number=1)
    of(tmp_path, 5, number=2)
    assert commits(tmp_path) == [1, 2, 3, 4, 5]
    assert commits(tmp_path, 3) == [4, 5]
    first.write_bytes(b"no binlog at all, and never read")
    assert commits(tmp_path, 3) == [4, 5]
    with pytest.raises(Corrupt, match=rf"{first} at 0"):
        commits(tmp_path)


@pytest.mark.parametrize("packed", ["", ".gz", ".tar.gz"])
def test_one_file_packed_or_not(packed: str, tmp_path: Path) -> None:
    path = of(tmp_path, 1, 2)
    there = path.with_name(path.name + packed)
    if packed == ".gz":
        there.write_bytes(gzip.compress(path.read_bytes()))
    elif packed:
        with tarfile.open(there, "w:gz") as archive:
            archive.add(tmp_path, "logs", filter=lambda one: one if one.isdir() else None)
            archive.add(path, path.name)
    assert commits(there) == [1, 2]


def test_an_archive_without_a_file_holds_nothing(tmp_path: Path) -> None:
    there = of(tmp_path, 1).with_suffix(".tar.gz")
    with tarfile.open(there, "w:gz") as archive:
        archive.add(tmp_path, "logs", filter=lambda one: one if one.isdir() else None)
    assert commits(there) == []


def test_a_torn_end_is_passed_over_at_the_very_end_alone(tmp_path: Path) -> None:
    path = of(tmp_path, 1, 2)
    path.write_bytes(path.read_bytes()[:-3])
    assert commits(tmp_path) == [1]
    of(tmp_path, 3, number=1)
    with pytest.raises(Corrupt, match=str(path)):
        commits(tmp_path)


def test_it_ends_where_the_savepoint_says_that_files_are_whole(tmp_path: Path) -> None:
    path = of(tmp_path, 1)
    whole = path.stat().st_size
    of(tmp_path, 1, 2)
    of(tmp_path, 3, number=1)
    (tmp_path / SAVEPOINT).write_bytes(dump(Savepoint(commit_ts=1, file=0, offset=whole)))
    assert commits(tmp_path) == [1]
    (tmp_path / SAVEPOINT).write_text("commitTS = 1\n")  # the original's names no file
    assert commits(tmp_path) == [1, 2, 3]


def test_what_is_no_log_or_lacks_a_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no binlog files"):
        commits(tmp_path)
    with pytest.raises(BadInput, match="no binlog files"):
        commits(tmp_path / "nowhere")
    of(tmp_path, 1)
    of(tmp_path, 3, number=2)
    with pytest.raises(Corrupt, match="file 1 is missing or there twice"):
        commits(tmp_path)
