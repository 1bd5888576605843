"""Reading a datum of any flag (EncodeValue's and EncodeKey's forms, appendix B.10)."""

from __future__ import annotations

from tidelog.rows import datum
from tidelog.rows.datum import COMPACT_BYTES, NIL, UVARINT, VARINT, read_uvarint
from tidelog.rows.decimal import read_decimal
from tidelog.rows.errors import Malformed
from tidelog.rows.json_binary import read_json
from tidelog.rows.values import Value


def read_datum(buf: bytes, p: int) -> tuple[int, Value | bytes, int]:
    """Any datum: its flag, its raw value (bytes only for strings) and the position behind it."""
    flag = buf[p]
    p += 1
    if flag == NIL:
        return flag, None, p
    if flag == VARINT:
        number, p = datum.read_varint(buf, p)
        return flag, number, p
    if flag == UVARINT:
        number, p = read_uvarint(buf, p)
        return flag, number, p
    if flag == COMPACT_BYTES:
        raw, p = datum.read_compact_bytes(buf, p)
        return flag, raw, p
    if flag == datum.DECIMAL:
        text, p = read_decimal(buf, p)
        return flag, text, p
    if flag == datum.FLOAT:
        real, p = datum.read_float(buf, p)
        return flag, real, p
    return _read_rare(flag, buf, p)


def _read_rare(flag: int, buf: bytes, p: int) -> tuple[int, Value | bytes, int]:
    if flag == datum.DURATION or flag == datum.INT:
        number, p = datum.read_i64(buf, p)
        return flag, number, p
    if flag == datum.UINT:
        number, p = datum.read_u64(buf, p)
        return flag, number, p
    if flag == datum.JSON:
        value, p = read_json(buf, p)
        return flag, value, p
    if flag == datum.BYTES:
        raw, p = datum.read_group_bytes(buf, p)
        return flag, raw, p
    raise Malformed(f"unknown datum flag {flag}")
