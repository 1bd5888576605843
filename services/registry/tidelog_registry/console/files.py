"""The page's files, read once: nothing touches the disk while somebody looks."""

from __future__ import annotations

import hashlib
from importlib.resources import files
from pathlib import PurePath

import msgspec

KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


class File(msgspec.Struct, frozen=True):
    body: bytes
    kind: str
    etag: str


def page_files() -> dict[str, File]:
    """By name."""
    found: dict[str, File] = {}
    for entry in (files(__package__) / "page").iterdir():
        kind = KINDS.get(PurePath(entry.name).suffix)
        if kind is not None:
            body = entry.read_bytes()
            found[entry.name] = File(body, kind, f'"{hashlib.sha256(body).hexdigest()[:32]}"')
    return found
