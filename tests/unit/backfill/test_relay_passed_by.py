"""A relay of which a record is damaged: `--on-corrupt skip` passes that one by, and no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.backfill.relay_logs import dump
from tests.unit.backfill.test_relays import told
from tests.unit.pump.driven import Machine, drive
from tests.unit.relay.relay_rig import STRUCTURES, opened, piece, rows, whole
from tidelog import record
from tidelog.errors import Corrupt
from tidelog_backfill.files.inputs import found
from tidelog_backfill.files.records import OnCorrupt
from tidelog_backfill.files.survey import survey
from tidelog_proto.relay_pb2 import RelayRecord

WHOLE_FILE = 1 << 20
LARGE = (102, 103)
"""Transactions of two pieces; those around them are of one record."""


def relay(directory: Path) -> Path:
    machine = Machine()
    log = opened(machine, 100, WHOLE_FILE)
    drive(log.append([whole(101, 100, rows(101))], STRUCTURES))
    for ts in LARGE:
        pieces = [piece(number, rows(ts, 20, number)) for number in range(2)]
        drive(log.append([*pieces, whole(ts, ts - 1, pieces=2)], STRUCTURES))
    drive(log.append([whole(104, 103, rows(104)), whole(105, 104, rows(105))], STRUCTURES))
    dump(machine, directory)
    (directory / "synced").unlink()
    return directory / "relay-000000"


def records(data: bytes) -> list[tuple[int, int]]:
    """Where each begins and ends."""
    return [
        (offset, offset + record.HEADER_BYTES + len(payload))
        for offset, payload in record.split(data).records
    ]


LEFT = [
    [102, 102, 103, 103, 104, 105],  # the record of 101
    [101, 102, 103, 103, 104, 105],  # a piece
    [101, 102, 103, 103, 104, 105],
    [101, 103, 103, 104, 105],  # what says that two pieces are whole
    [101, 102, 102, 103, 104, 105],
    [101, 102, 102, 103, 104, 105],
    [101, 102, 102, 104, 105],
    [101, 102, 102, 103, 103, 105],
]


@pytest.mark.parametrize("number", range(len(LEFT)))
def test_all_is_read_but_what_a_flipped_bit_is_in(tmp_path: Path, number: int) -> None:
    path = relay(tmp_path)
    whole_file = path.read_bytes()
    begin, end = records(whole_file)[1 + number]  # behind the header
    rows_at = begin + record.HEADER_BYTES
    for at in (*range(begin, rows_at), *range(rows_at, end, 7)):
        data = bytearray(whole_file)
        data[at] ^= 1 << at % 8
        path.write_bytes(data)
        assert seen(tmp_path, "skip") == (LEFT[number], end - begin), at
        with pytest.raises(Corrupt, match=r"relay-000000 at offset"):
            seen(tmp_path, "stop")


@pytest.mark.parametrize("number", range(1, 1 + len(LEFT)))
@pytest.mark.parametrize(
    "payload", [b"\xff none", bytes((RelayRecord.BATCH_FIELD_NUMBER << 3 | 2, 9))]
)
def test_nor_is_anything_else_left_out_with_a_record_that_means_nothing(
    tmp_path: Path, number: int, payload: bytes
) -> None:
    path = relay(tmp_path)
    data = path.read_bytes()
    at, _ = records(data)[number]
    none = record.frame(payload)
    path.write_bytes(data[:at] + none + data[at:])
    assert seen(tmp_path, "skip") == ([101, 102, 102, 103, 103, 104, 105], len(none))
    with pytest.raises(Corrupt, match=f"relay-000000 at offset {at}: it is no relay record"):
        seen(tmp_path, "stop")


def seen(directory: Path, on_corrupt: OnCorrupt) -> tuple[list[int], int]:
    """commit_ts of rows, and how many bytes were passed by."""
    (chunk,) = found(directory).chunks()
    facts = survey(chunk, on_corrupt=on_corrupt)
    shown = told(directory, WHOLE_FILE, on_corrupt=on_corrupt)
    assert facts.rows == len(shown)
    return shown, facts.skipped
