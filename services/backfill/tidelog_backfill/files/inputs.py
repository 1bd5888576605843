"""What logs lie in a directory, and their chunks.

A Pump's data directory (ours or the original's) or its `value`, an Applier's relay directory, a
file downstream's directory or one file of it. Nothing there is changed, and it may be in use.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from tidelog import record
from tidelog.errors import BadInput, Corrupt, NotFound, UnparsablePayload
from tidelog.relay import records
from tidelog.sealed import unseal
from tidelog.unreadable import NOT_READABLE
from tidelog_backfill.files import pb
from tidelog_backfill.files.chunk import Chunk, Kind
from tidelog_backfill.files.parts import RELAY, SEGMENT, Part, numbered, parts
from tidelog_backfill.files.purged import Gone, gone
from tidelog_backfill.files.records import LogFile, unreadable
from tidelog_proto.relay_pb2 import RelayHeader

CHUNK_BYTES = 64 << 20
HEADER_READ = 4 << 10
HINT = (
    "name a Pump's data directory (with value/000000.vlog), an Applier's relay directory (with"
    " relay-000000) or a file downstream's (with binlog-0000000000000000-…)"
)


NODE = ".node"


class _Node(msgspec.Struct):
    """Of a Pump's own what is asked for here."""

    cluster_id: int = 0


class Input(msgspec.Struct, frozen=True):
    """`logs`: the files of each directory, oldest first. `feed`: whose a relay is; `cluster_id`:
    of a relay, or of Pumps; "" and 0 where nothing says it. `gone`: what Pumps have purged of
    theirs, and pb files that are not there any more."""

    kind: Kind
    logs: list[list[Part]]
    feed: str = ""
    cluster_id: int = 0
    gone: list[Gone] = []

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(part.end for log in self.logs for part in log)

    @property
    def empty(self) -> list[str]:
        """Logs without a record beside others that have some: nothing of them says up to where they
        are whole."""
        found = [
            str(Path(log[0].path).parent) for log in self.logs if not any(part.end for part in log)
        ]
        return found if len(found) < len(self.logs) else []

    def chunks(self, chunk_bytes: int = CHUNK_BYTES) -> list[Chunk]:
        """All records, each in one of them, in the order of each log; a pb_binlog file is one."""
        return [
            Chunk(self.kind, part.path, begin, min(begin + step, part.end), part.end, begin == 0)
            for log in self.logs
            for part in log
            for step in [max(1, part.end) if self.kind == "pb" else chunk_bytes]
            for begin in range(0, part.end, step)
        ]


def found(*directories: str | Path) -> Input:
    """What they hold; several are those of several Pumps. Raises NotFound, Corrupt, and BadInput
    for what does not belong together."""
    inputs = [_one(Path(directory).resolve()) for directory in directories]
    if not inputs:
        raise BadInput("no directory is named", hint=HINT)
    if len(inputs) > 1 and {one.kind for one in inputs} != {"segment"}:
        told = ", ".join(
            f"{path}: {one.kind}" for path, one in zip(directories, inputs, strict=True)
        )
        raise BadInput(
            f"these logs can't be read together ({told})",
            hint="several directories must be those of one cluster's Pumps",
        )
    clusters = {one.cluster_id for one in inputs if one.cluster_id}
    if len(clusters) > 1:
        raise BadInput(
            f"these logs are of several clusters ({', '.join(map(str, sorted(clusters)))})",
            hint="their timestamps have nothing to do with each other: replay one at a time",
        )
    first = inputs[0]
    logs = [log for one in inputs for log in one.logs]
    lost = [each for one in inputs for each in one.gone]
    return Input(first.kind, logs, first.feed, max(clusters, default=0), lost)


def _one(directory: Path) -> Input:
    is_pb = pb.holds(directory)
    if not directory.is_dir() and not is_pb:
        raise NotFound(f"there is no directory {directory}", hint=HINT)
    value = directory if numbered(directory, SEGMENT) else directory / "value"
    segments, relay = numbered(value, SEGMENT), numbered(directory, RELAY)
    if bool(segments) + bool(relay) + is_pb > 1:
        raise BadInput(f"{directory} holds segments, relay or pb_binlog files together", hint=HINT)
    if is_pb:
        return Input("pb", [pb.parts(directory)], gone=pb.gone(directory))
    if segments:
        cluster_id = _cluster_of(value.parent)
        return Input("segment", [parts(value, SEGMENT)], cluster_id=cluster_id, gone=gone(value))
    if not relay:
        raise NotFound(f"neither segments, relay nor pb_binlog files are in {directory}", hint=HINT)
    log = parts(directory, RELAY)
    header = _header(log[0])
    purged = [Gone(str(directory), header.prev_commit_ts)] if relay[0][0] else []
    return Input("relay", [log], header.feed, header.cluster_id, purged)


def _cluster_of(directory: Path) -> int:
    """A Pump's; 0 where it says nothing, as the original's, or can't be read: its start tells."""
    try:
        return unseal((directory / NODE).read_bytes(), _Node).cluster_id
    except (OSError, *NOT_READABLE):
        return 0


def _header(part: Part) -> RelayHeader:
    """Of a relay's first file; empty where that was just made. Raises Corrupt."""
    if not part.end:
        return RelayHeader()
    with LogFile(part.path) as file:
        found = record.split(file.read(0, HEADER_READ)).records
    try:
        one = records.parsed(found[0][1]) if found else None
    except UnparsablePayload as error:
        raise unreadable(part.path, 0, error.message) from error
    if one is None or one.WhichOneof("content") != "header":
        raise Corrupt(
            f"{part.path}: a relay's file begins with a header, this one doesn't",
            hint="restore the file: only there it says whose log it is",
        )
    return one.header
