"""Vectors of the value codecs: what TiDB's bytes mean, and what no TiDB writes."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.rows.tables import FINITE, FLOAT32, JSON
from tidelog.rows import datum
from tidelog.rows.any_datum import read_datum
from tidelog.rows.column import shortest_float32
from tidelog.rows.decimal import put_decimal, read_decimal
from tidelog.rows.errors import Malformed
from tidelog.rows.json_binary import MAX_DEPTH, put_json, read_json
from tidelog.rows.times import (
    date_text,
    datetime_text,
    duration_text,
    pack_time,
    parse_duration,
)
from tidelog.rows.values import Value


@pytest.mark.parametrize(
    ("text", "precision", "scale", "packed"),
    [
        # MySQL's manual: DECIMAL(14,4) of 1234567890.1234 and its negative.
        ("1234567890.1234", 14, 4, "810dfb38d204d2"),
        ("-1234567890.1234", 14, 4, "7ef204c72dfb2d"),
        ("0.00", 3, 2, "8000"),
        ("9", 1, 0, "89"),
        ("0.5", 1, 1, "85"),
    ],
)
def test_packed_decimals(text: str, precision: int, scale: int, packed: str) -> None:
    out = bytearray()
    put_decimal(out, text, precision, scale)
    assert out == bytes((precision, scale)) + bytes.fromhex(packed)
    assert read_decimal(bytes(out), 0) == (text, len(out))


@pytest.mark.parametrize("raw", ["0500", "0003", "5200", "050180", "01008f", "0100ff"])
def test_impossible_decimals(raw: str) -> None:
    with pytest.raises((Malformed, IndexError)):
        read_decimal(bytes.fromhex(raw), 0)


@pytest.mark.parametrize("text", ["100", "1.23", "x", "", "1e1"])
def test_a_decimal_that_does_not_fit_is_refused(text: str) -> None:
    with pytest.raises(Malformed):
        put_decimal(bytearray(), text, 3, 1)


@pytest.mark.parametrize(
    "text", ["0000-00-00 00:00:00", "2024-02-29 23:59:59.123456", "9999-12-31 00:00:00"]
)
def test_times_round_trip(text: str) -> None:
    fsp = len(text.partition(".")[2])
    assert datetime_text(pack_time(text), fsp) == text
    assert date_text(pack_time(text)) == text[:10]


@pytest.mark.parametrize("packed", [2**64 - 1, 24 << 36, 60 << 30, 60 << 24, 1_000_000])
def test_impossible_times(packed: int) -> None:
    with pytest.raises(Malformed):
        datetime_text(packed, 0)


@pytest.mark.parametrize("text", ["2024-13-01", "2024-1-1", "24:00:00", "2024-01-01 25:00:00", ""])
def test_texts_that_are_no_time(text: str) -> None:
    with pytest.raises(Malformed):
        pack_time(text)


def test_durations() -> None:
    assert duration_text(-1_500_000_000, 3) == "-00:00:01.500"
    assert duration_text(parse_duration("-838:59:59"), 0) == "-838:59:59"
    for text in ("1:00:00", "00:60:00", "839:00:00", "x"):
        with pytest.raises(Malformed):
            parse_duration(text)
    with pytest.raises(Malformed):
        duration_text(2**63 - 1, 0)


@given(FLOAT32)
def test_float32_has_its_shortest_text(value: float) -> None:
    (single,) = struct.unpack("<f", struct.pack("<f", value))
    assert shortest_float32(single) == value
    assert len(repr(value)) <= len(repr(single))


def test_a_tenth_stays_a_tenth() -> None:
    (single,) = struct.unpack("<f", struct.pack("<f", 0.1))
    assert repr(shortest_float32(single)) == "0.1"


@given(FINITE, FINITE)
def test_floats_keep_their_order_as_bytes(a: float, b: float) -> None:
    first, second = bytearray(), bytearray()
    datum.put_float(first, a)
    datum.put_float(second, b)
    assert datum.read_float(bytes(first), 0) == (a, 8)
    if a < b:
        assert first < second


@pytest.mark.parametrize("raw", ["fff0000000000000", "000fffffffffffff", "ffffffffffffffff"])
def test_infinities_and_nan_are_no_values(raw: str) -> None:
    with pytest.raises(Malformed):
        datum.read_float(bytes.fromhex(raw), 0)


@given(st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**64 - 1), st.binary(max_size=40))
def test_key_forms_round_trip(signed: int, unsigned: int, raw: bytes) -> None:
    out = bytearray()
    datum.put_key_int(out, signed)
    datum.put_key_uint(out, unsigned)
    datum.put_key_bytes(out, raw)
    buf = bytes(out)
    _, first, p = read_datum(buf, 0)
    _, second, p = read_datum(buf, p)
    _, third, p = read_datum(buf, p)
    assert (first, second, third, p) == (signed, unsigned, raw, len(buf))


@given(st.binary(max_size=20), st.binary(max_size=20))
def test_key_bytes_keep_their_order(a: bytes, b: bytes) -> None:
    first, second = bytearray(), bytearray()
    datum.put_key_bytes(first, a)
    datum.put_key_bytes(second, b)
    assert (first < second) == (a < b)


def test_a_varint_of_more_than_64_bits_is_refused() -> None:
    for raw in (b"\xff" * 9 + b"\x7f", b"\x80" * 30):
        with pytest.raises(Malformed):
            datum.read_uvarint(raw, 0)
    assert datum.read_uvarint(b"\xff" * 9 + b"\x01", 0) == (2**64 - 1, 10)


def test_unknown_flags_are_refused() -> None:
    for flag in (11, 200, 250):
        with pytest.raises(Malformed, match=str(flag)):
            read_datum(bytes((flag, 0, 0)), 0)


@given(JSON)
def test_json_round_trips_with_its_number_types(value: Value) -> None:
    out = bytearray()
    put_json(out, value)
    read, end = read_json(bytes(out), 0)
    assert (read, end) == (value, len(out))
    assert repr(_sorted(read)) == repr(_sorted(value))


def _sorted(value: Value) -> Value:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


def test_json_values_without_a_json_type() -> None:
    core = 2024 << 50 | 2 << 46 | 29 << 41 | 23 << 36 | 59 << 30 | 58 << 24 | 5 << 4
    assert read_json(b"\x0e" + struct.pack("<Q", core), 0) == ("2024-02-29", 9)
    assert read_json(b"\x0f" + struct.pack("<Q", core), 0)[0] == "2024-02-29 23:59:58.000005"
    assert read_json(b"\x11" + struct.pack("<qI", -1_000_000_000, 0), 0)[0] == "-00:00:01.000000"
    assert read_json(b"\x0d\xfd\x03abc", 0) == ("base64:type253:YWJj", 6)


def test_json_bombs_end_soon() -> None:
    # A container whose two entries are the container itself, and one nested beyond reason.
    loop = bytes.fromhex("03020000001200000003000000000300000000")
    with pytest.raises(Malformed):
        read_json(loop, 0)
    deep: Value = 1
    for _ in range(MAX_DEPTH + 2):
        deep = [deep]
    with pytest.raises(Malformed):
        put_json(bytearray(), deep)
    # Many entries that share one long string would blow up a thousandfold.
    count, text = 500, b"x" * 5000
    head = struct.pack("<II", count, 8 + 5 * count + 2 + len(text))
    entries = struct.pack("<BI", 12, 8 + 5 * count) * count
    with pytest.raises(Malformed, match="more than once"):
        read_json(b"\x03" + head + entries + b"\x88\x27" + text, 0)
