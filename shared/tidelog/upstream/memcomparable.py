"""Bytes whose order as a whole is the order of their parts: TiKV's keys (`codec.EncodeBytes`).

Each group of eight bytes, the last one padded with zeros, is followed by 0xFF less its padding.
"""

from __future__ import annotations

GROUP = 8
_MARKER = 0xFF


def encode_bytes(data: bytes) -> bytes:
    """Always at least one group: a multiple of eight bytes ends with a group of padding."""
    parts: list[bytes] = []
    for at in range(0, len(data) + 1, GROUP):
        group = data[at : at + GROUP]
        parts.append(group.ljust(GROUP, b"\0"))
        parts.append(bytes((_MARKER - (GROUP - len(group)),)))
    return b"".join(parts)


def decode_bytes(data: bytes, at: int = 0) -> tuple[bytes, int]:
    """What stands at `at`, and where the next part begins. Raises ValueError."""
    found = bytearray()
    while True:
        group, end = data[at : at + GROUP], at + GROUP + 1
        if len(data) < end:
            raise ValueError(f"a key that ends in the group at {at}")
        padding = _MARKER - data[end - 1]
        if padding > GROUP or group[GROUP - padding :].strip(b"\0"):
            raise ValueError(f"a key whose group at {at} is padded wrongly")
        found += group[: GROUP - padding]
        at = end
        if padding:
            return bytes(found), at
