"""A directory as the original writes it (original.md B.1) opens in ours, and gives the same bytes.

Framed here by the words of B.1, not by `tidelog.record`. What a real Pump wrote is the matter of
tests/fixtures/test_pump_vlog.py.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.pump.driven import Machine, append, counted_reads, footed, framed, scanned
from tests.unit.pump.rig import commit, prewrite, rollback
from tidelog import record
from tidelog_pump.log.files import name
from tidelog_pump.log.place import Pointer


class Original(NamedTuple):
    """Its segment files; the records in them; whether it closed the newest one."""

    files: dict[str, bytes | None]
    records: list[tuple[Pointer, bytes]]
    closed: bool


def fake(ts: int) -> bytes:
    return rollback(ts) + b"\x18" + varint(ts)


def varint(value: int) -> bytes:
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


payloads = st.one_of(
    st.builds(prewrite, st.integers(1, 1 << 62), st.binary(max_size=300)),
    st.builds(lambda ts: commit(ts, ts + 7), st.integers(1, 1 << 61)),
    st.builds(rollback, st.integers(1, 1 << 62)),
    st.builds(fake, st.integers(1, 1 << 62)),
)


@st.composite
def originals(draw: st.DrawFn) -> Original:
    contents = draw(st.lists(st.lists(payloads, max_size=6), min_size=1, max_size=4))
    fids = sorted(draw(st.permutations(range(9)))[: len(contents)])
    closed = draw(st.booleans())
    files: dict[str, bytes | None] = {"value": None}
    records = []
    for fid, content in zip(fids, contents, strict=True):
        data = b""
        for payload in content:
            records.append((Pointer(fid, len(data)), payload))
            data += framed(payload)
        if fid != fids[-1] or closed:
            data += footed(fid * 10)
        files[f"value/{fid:06d}.vlog"] = data
    return Original(files, records, closed)


@given(original=originals())
@settings(max_examples=300, deadline=None)
def test_it_opens_and_reads_and_our_framing_gives_the_same_bytes(original: Original) -> None:
    machine = Machine()
    machine.disk.restore(original.files)
    log = machine.opened()
    assert scanned(log) == (original.records, None)
    for number, (pointer, payload) in enumerate(original.records):
        assert log.payload(pointer) == payload
        assert scanned(log, pointer) == (original.records[number:], None)
    files = machine.files()
    for path, data in original.files.items():
        assert files[path] == data
        if data is not None:
            found = record.split(data)
            again = b"".join(record.frame(payload) for _, payload in found.records)
            rest = data[found.consumed :]
            assert again + rest == data
            assert rest in (b"", record.footer(record.parse_footer(rest) or 0))
    newest = max(original.files)
    assert name(log.fids[-1]) == newest or original.closed
    # And it goes on in ours.
    more = [prewrite(1 << 62, b"more"), commit(1 << 61, (1 << 61) + 1)]
    records = [*original.records, *zip(append(log, more, 1 << 62), more, strict=True)]
    assert scanned(machine.opened()) == (records, None)


def test_what_it_closed_is_believed_and_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine()
    contents = [[prewrite(n, bytes(20_000))] * 3 for n in range(1, 5)]
    machine.disk.restore(
        {
            "value": None,
            **{
                name(fid): b"".join(map(framed, content)) + footed(fid + 1)
                for fid, content in enumerate(contents)
            },
        }
    )
    with counted_reads(monkeypatch) as reads:
        log = machine.opened()
    assert reads == {name(fid): record.FOOTER_BYTES for fid in range(4)}
    assert [closed.max_ts for closed in log.closed()] == [1, 2, 3, 4]
    assert log.fids == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("cut", range(1, 50))
def test_a_torn_tail_of_its_newest_file_is_cut(cut: int) -> None:
    whole = framed(prewrite(1, b"whole"))
    torn = framed(prewrite(2, bytes(60)))[:cut]
    machine = Machine()
    machine.disk.restore({"value": None, name(0): whole + torn})
    log = machine.opened()
    assert (log.end, log.truncated_bytes) == (Pointer(0, len(whole)), cut)
    assert scanned(log) == ([(Pointer(0, 0), prewrite(1, b"whole"))], None)
