"""Small files that are replaced whole: JSON, and behind it a line with its checksum.

    {"ts":481036337152,"first":2}
    "crc32c 8a9136aa"

A flipped bit in a number would else be another number: a purge point that deletes what nobody has
read, a position that passes by what was never seen. Both lines are JSON values. A file without the
second is an earlier release's, or somebody's who edited it: it is taken as it is.
"""

from __future__ import annotations

import re

import msgspec
from crc32c import crc32c

_SEAL = re.compile(rb'\n"crc32c ([0-9a-f]{8})"\n?$')


def seal(body: bytes) -> bytes:
    """What to write."""
    return b'%s\n"crc32c %08x"\n' % (body, crc32c(body))


def unseal(data: bytes) -> bytes:
    """The body, for a decoder that takes one JSON value and nothing behind it. Raises
    msgspec.DecodeError for one that is not what was written."""
    found = _SEAL.search(data)
    if found is None:
        return data
    body = data[: found.start()]
    if crc32c(body) != int(found[1], 16):
        raise msgspec.DecodeError(
            f"at offset 0, {len(body)} bytes are not those that were written: their checksum"
            " does not match"
        )
    return body
