"""What logs lie in a directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.backfill.pump_logs import commit, inserts, prewrite, write
from tidelog import record
from tidelog.errors import BadInput, Corrupt, NotFound
from tidelog.sealed import seal
from tidelog.synced import Synced
from tidelog_backfill.files.chain import in_order
from tidelog_backfill.files.chunk import Chunk
from tidelog_backfill.files.inputs import found
from tidelog_backfill.files.records import OnCorrupt
from tidelog_backfill.files.survey import survey
from tidelog_pump.identity import NodeRecord

PAIR = [prewrite(1, inserts([1])), commit(1, 2)]
SIZE = sum(len(record.frame(one)) for one in PAIR)


def test_a_pumps_directory_is_read_by_either_of_its_names(tmp_path: Path) -> None:
    write(tmp_path, [PAIR, PAIR])
    first, last = (str(tmp_path / "value" / f"{n:06d}.vlog") for n in (0, 1))
    for directory in (tmp_path, tmp_path / "value"):
        assert found(directory).chunks() == [
            Chunk("segment", first, 0, SIZE, SIZE, exact=True),
            Chunk("segment", last, 0, SIZE, SIZE, exact=True),
        ]
    assert found(tmp_path).size == 2 * SIZE


def test_chunks_are_the_whole_of_it_without_footers(tmp_path: Path) -> None:
    write(tmp_path, [PAIR * 3, PAIR])
    chunks = found(tmp_path).chunks(SIZE + 1)
    assert [(one.begin, one.end) for one in chunks] == [
        (0, SIZE + 1),
        (SIZE + 1, 2 * SIZE + 2),
        (2 * SIZE + 2, 3 * SIZE),
        (0, SIZE),
    ]


def test_several_pumps_are_read_together(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write(tmp_path / name, [PAIR])
    both = found(tmp_path / "a", tmp_path / "b")
    assert [len(log) for log in both.logs] == [1, 1]
    (tmp_path / "relay").mkdir()
    (tmp_path / "relay" / "relay-000000").touch()
    with pytest.raises(BadInput, match="relay: relay"):
        found(tmp_path / "a", tmp_path / "relay")


def test_a_log_without_a_record_is_named_beside_others(tmp_path: Path) -> None:
    """It limits nothing: what it got later may lie below the end of the others."""
    write(tmp_path / "a", [PAIR])
    (tmp_path / "b" / "value").mkdir(parents=True)
    (tmp_path / "b" / "value" / "000000.vlog").touch()
    assert found(tmp_path / "a", tmp_path / "b").empty == [str(tmp_path / "b" / "value")]
    assert found(tmp_path / "a").empty == []
    assert found(tmp_path / "b").empty == []


def test_pumps_say_whose_they_are(tmp_path: Path) -> None:
    for name, cluster_id in (("a", 7), ("b", 0), ("c", 8)):
        write(tmp_path / name, [PAIR])
        (tmp_path / name / ".node").write_bytes(seal(NodeRecord("p", cluster_id, 1)))
    assert found(tmp_path / "b").cluster_id == 0
    assert found(tmp_path / "b", tmp_path / "a" / "value").cluster_id == 7
    with pytest.raises(BadInput, match=r"several clusters \(7, 8\)"):
        found(tmp_path / "c", tmp_path / "a")
    (tmp_path / "c" / ".node").write_bytes(b"{")
    assert found(tmp_path / "c", tmp_path / "a").cluster_id == 7


def test_a_directory_without_logs_says_what_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="relay-000000"):
        found(tmp_path)
    with pytest.raises(NotFound, match="there is no directory"):
        found(tmp_path / "nowhere")
    with pytest.raises(BadInput):
        found()


def test_two_kinds_of_logs_in_one_directory_are_refused(tmp_path: Path) -> None:
    write(tmp_path, [PAIR])
    (tmp_path / "relay-000000").touch()
    with pytest.raises(BadInput, match="segments, relay"):
        found(tmp_path)


def test_a_file_that_is_missing_is_told(tmp_path: Path) -> None:
    write(tmp_path, [PAIR, PAIR, PAIR], known=Synced(2, SIZE, 2))
    (tmp_path / "value" / "000001.vlog").unlink()
    with pytest.raises(Corrupt, match=r"000000.vlog: the file after it, 1, is gone") as missing:
        found(tmp_path)
    assert missing.value.hint.startswith("restore the file")
    (tmp_path / "value" / "000002.vlog").unlink()
    with pytest.raises(Corrupt, match="file 2 was written and is gone"):
        found(tmp_path)


@pytest.mark.parametrize("on_corrupt", ["stop", "skip"])
def test_a_file_that_vanishes_meanwhile_is_told(tmp_path: Path, on_corrupt: OnCorrupt) -> None:
    write(tmp_path, [PAIR])
    chunks = found(tmp_path).chunks()
    (tmp_path / "value" / "000000.vlog").unlink()
    with pytest.raises(Corrupt, match=r"000000.vlog is gone") as missing:
        in_order(chunks, on_corrupt=on_corrupt)
    assert missing.value.hint.startswith("restore the file")


TORN = record.frame(PAIR[0])[:-1]


@pytest.mark.parametrize("known", [None, Synced(0, SIZE, 2), Synced(0, 0, 0)])
def test_a_torn_tail_is_left_out(tmp_path: Path, known: Synced | None) -> None:
    write(tmp_path, [PAIR], tail=TORN, known=known)
    (chunk,) = found(tmp_path).chunks()
    assert (chunk.end, survey(chunk).records) == (SIZE, 2)


def test_what_was_synced_must_be_there(tmp_path: Path) -> None:
    write(tmp_path, [PAIR], known=Synced(0, SIZE + 1, 2))
    with pytest.raises(Corrupt, match=f"000000.vlog at offset {SIZE}: the file ends here"):
        found(tmp_path)


def test_damage_before_the_synced_offset_is_no_torn_tail(tmp_path: Path) -> None:
    size = len(record.frame(PAIR[0])) + SIZE
    write(tmp_path, [PAIR], tail=TORN + b"x", known=Synced(0, size, 2))
    (chunk,) = found(tmp_path).chunks()
    with pytest.raises(Corrupt, match=f"at offset {SIZE}: its checksum"):
        survey(chunk)


def test_damage_that_records_follow_is_no_torn_tail(tmp_path: Path) -> None:
    """Of a log of which nothing tells what was synced: the original's."""
    write(tmp_path, [PAIR], tail=TORN + record.frame(PAIR[1]))
    (chunk,) = found(tmp_path).chunks()
    with pytest.raises(Corrupt, match=f"at offset {SIZE}: its checksum"):
        survey(chunk)
    facts = survey(chunk, on_corrupt="skip")
    assert (facts.records, facts.skipped) == (3, len(TORN))
