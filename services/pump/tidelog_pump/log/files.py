"""The log's files by name: which are ours, and what to say of one that is bad."""

from __future__ import annotations

import re

import structlog

from tidelog.errors import Corrupt
from tidelog.ports import Disk
from tidelog_pump.log.place import Pointer
from tidelog_pump.log.promised import PROMISED_FILE

log = structlog.get_logger()

DIRECTORY = "value"
SYNCED = f"{DIRECTORY}/synced"
CLOSED = f"{DIRECTORY}/closed"
MAX_FID = (1 << 32) - 1
SHOWN = 8
_NAME = re.compile(r"(\d{6,10})\.vlog")
GONE = "it was written and is gone"
GONE_HINT = f"restore it, or accept the loss of its records: delete {CLOSED} and {SYNCED}"
NEWEST_GONE_HINT = (
    f"is the volume of {DIRECTORY} mounted? Restore it, or accept the loss of what it held: delete "
    f"{CLOSED}, {SYNCED} and {PROMISED_FILE}"
)


def _file_name(fid: int) -> str:
    return f"{fid:06d}.vlog"


def name(fid: int) -> str:
    return f"{DIRECTORY}/{_file_name(fid)}"


def listed(disk: Disk) -> list[int]:
    """Numbers of the segments, oldest first; files that are not ours are left alone, and told."""
    entries = disk.listdir(DIRECTORY)
    found = [int(match[1]) for entry in entries if (match := _NAME.fullmatch(entry))]
    fids = sorted(fid for fid in found if fid <= MAX_FID and _file_name(fid) in entries)
    ours = {SYNCED, CLOSED, f"{SYNCED}.tmp", f"{CLOSED}.tmp", *map(name, fids)}
    foreign = [entry for entry in entries if f"{DIRECTORY}/{entry}" not in ours]
    if foreign:
        log.warning("files that are not ours lie among the segments", files=foreign[:SHOWN])
    return fids


def corrupt(pointer: Pointer, what: str) -> Corrupt:
    return Corrupt(f"{name(pointer.fid)} at offset {pointer.offset}: {what}")
