"""Records whose checksum is right and whose content is none: whoever wrote them, they stop a reader
with the file and the offset."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.unit.pump.driven import Machine, drive, framed
from tests.unit.relay.relay_rig import STRUCTURES, opened, read, rows, whole
from tidelog import record
from tidelog.errors import Corrupt
from tidelog_proto.relay_pb2 import RelayRecord

FILE = "relay/relay-000000"


def written() -> Machine:
    machine = Machine()
    log = opened(machine)
    drive(log.append([whole(5, 0, rows(5)), whole(9, 5, rows(9))], STRUCTURES))
    return machine


def changed(machine: Machine, change: Callable[[RelayRecord], bytes]) -> int:
    """The first batch's record holds this instead, under its right checksum. Its offset."""
    disk = machine.mount()
    data = memoryview(disk.read_file(FILE))
    at = end = 0
    for _ in range(2):  # the file's header, and the batch
        header = record.parse_header(data, end)
        assert header is not None
        at, end = end, end + record.HEADER_BYTES + header.length
    new = framed(change(RelayRecord.FromString(bytes(data[at + record.HEADER_BYTES : end]))))
    drive(disk.remove("relay/synced"))  # as long as it was it need not be
    drive(disk.write_file(FILE, data[:at].tobytes() + new + data[end:].tobytes()))
    return at


def no_record(_: RelayRecord) -> bytes:
    return b"\xff\xff\xff"


def another_header(_: RelayRecord) -> bytes:
    one = RelayRecord()
    one.header.feed = "shop"
    return one.SerializeToString()


def no_structure(one: RelayRecord) -> bytes:
    one.batch.tables[0].structure = b"[no structure"
    return one.SerializeToString()


def no_marker(one: RelayRecord) -> bytes:
    one.batch.marker = b"{no marker"
    return one.SerializeToString()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (no_record, "no relay record"),
        (another_header, "a record of kind header has no place here"),
        (no_structure, "a table's structure"),
        (no_marker, "a body of the stream"),
    ],
)
def test_it_is_corrupt_at_its_offset(change: Callable[[RelayRecord], bytes], said: str) -> None:
    machine = written()
    at = changed(machine, change)
    with pytest.raises(Corrupt, match=said) as stopped:
        drive(read(opened(machine)))
    assert stopped.value.message.startswith(f"{FILE} at offset {at}:")
