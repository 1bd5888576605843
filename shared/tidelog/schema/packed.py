"""A TableInfo as it is kept: bytes, and the little that following the DDL history needs of it.

Decoded, a table of ten columns takes 10 KiB and more; there may be 100,000 of them.
"""

from __future__ import annotations

import msgspec

from tidelog.schema.model import TableInfo


class Packed(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """`data` is empty while the table lies in a page of the snapshot only: in `page`, under
    `key`."""

    id: int
    name: str
    lower: str
    partition_ids: tuple[int, ...]
    data: bytes
    page: int = 0
    key: int = 0

    @property
    def away(self) -> bool:
        return not self.data


def pack(info: TableInfo) -> Packed:
    name, lower = info.name.text, info.name.lower
    ids = tuple(sorted(info.partition_ids)) if info.partition is not None else ()
    return Packed(info.id, name, name if lower == name else lower, ids, _encode(info))


def unpack(packed: Packed) -> TableInfo:
    """EXCHANGE PARTITION gives a table another id, and changes nothing else."""
    info = _decode(packed.data)
    return info if info.id == packed.id else msgspec.structs.replace(info, id=packed.id)


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(TableInfo).decode
