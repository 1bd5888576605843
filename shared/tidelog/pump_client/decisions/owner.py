"""Whose transaction is it? The prewrite_key says so: an upstream's own word, opaque to Pumps."""

from __future__ import annotations

from typing import Final

_PREFIX: Final = b"tidelog-client/"


def prewrite_key(owner: str) -> bytes:
    """The key of every Prewrite of the client `owner`."""
    return _PREFIX + owner.encode()


def owner_of(key: bytes) -> str:
    """The client that wrote a Prewrite; "" if it wasn't one of these clients."""
    if not key.startswith(_PREFIX):
        return ""
    return key.removeprefix(_PREFIX).decode(errors="replace")
