"""Small files that are replaced whole: JSON, and behind it a line with its checksum.

    {"ts":481036337152,"first":2}
    "crc32c 8a9136aa"

A flipped bit in a number would else be another number: a purge point that deletes what nobody has
read, a position that passes by what was never seen. Both lines are JSON values. A file without the
second is an earlier release's, or somebody's who edited it: it is taken as it is.
"""

from __future__ import annotations

import re
from typing import TypeVar

import msgspec
from crc32c import crc32c

from tidelog.errors import Corrupt
from tidelog.ports import Disk
from tidelog.unreadable import NOT_READABLE

T = TypeVar("T")

_SEAL = re.compile(rb'\n"crc32c ([0-9a-f]{8})"\n?$')


def seal(value: object) -> bytes:
    """What to write."""
    body = msgspec.json.encode(value)
    return b'%s\n"crc32c %08x"\n' % (body, crc32c(body))


def unseal(data: bytes, kind: type[T]) -> T:
    """What was written. Raises what NOT_READABLE lists."""
    found = _SEAL.search(data)
    if found is None:
        return msgspec.json.decode(data, type=kind)
    body = data[: found.start()]
    if crc32c(body) != int(found[1], 16):
        raise msgspec.DecodeError(
            f"at offset 0, {len(body)} bytes are not those that were written: their checksum"
            " does not match"
        )
    return msgspec.json.decode(body, type=kind)


def read_sealed(
    disk: Disk, path: str, kind: type[T], hint: str = "", *, directory: str = ""
) -> T | None:
    """What was written, None if nothing was. `directory`: what an operator sees `disk` below.
    Raises Corrupt, IoFailed."""
    if not disk.exists(path):
        return None
    try:
        return unseal(disk.read_file(path), kind)
    except NOT_READABLE as error:
        told = f"{directory}/{path}" if directory else path
        raise Corrupt(f"{told} can't be read: {error}", hint=hint) from error
