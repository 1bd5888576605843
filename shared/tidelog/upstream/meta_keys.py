"""The keys of TiDB's meta data in TiKV, as far as the history of its DDL jobs goes.

A hash's field is stored at `m`, the hash's name and the field, both memcomparable, with a type
between them (TiDB's `structure` package). The history is the hash `DDLJobHistory`: a job's id, big
endian, is the field, so a scan gives them in rising order; the value is the job's JSON.
"""

from __future__ import annotations

import struct

from tidelog.upstream.memcomparable import decode_bytes, encode_bytes

PREFIX = b"m"
HASH_DATA = struct.pack(">Q", ord("h"))
_HISTORY = PREFIX + encode_bytes(b"DDLJobHistory") + HASH_DATA
_ID = struct.Struct(">Q")
ID_MAX = (1 << 63) - 1


def history_key(job_id: int) -> bytes:
    """Where the job of this id lies once it is done."""
    return _HISTORY + encode_bytes(_ID.pack(job_id))


def history_range(after_job_id: int) -> tuple[bytes, bytes]:
    """Start and stop of all jobs above this id, which a binlog may have made of anything."""
    return history_key(max(0, after_job_id + 1)), history_key(ID_MAX) + b"\0"


def job_id_of(key: bytes) -> int:
    """Raises ValueError where the key is no job's."""
    if not key.startswith(_HISTORY):
        raise ValueError("a key outside the DDL history")
    field, end = decode_bytes(key, len(_HISTORY))
    if len(field) != _ID.size or end != len(key):
        raise ValueError("a field of the DDL history that is no job's id")
    return int(_ID.unpack(field)[0])
