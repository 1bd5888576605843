"""Files as downstream: the original's pb_binlog files, one directory a feed (design section 9).

A transaction's record, synced, then the savepoint: what stands behind the savepoint is cut at the
next open. Large transactions are several records of one commit_ts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import structlog

from tidelog.actor import after_calls, calls_ended
from tidelog.changes import DdlMessage, Event
from tidelog.downstream import (
    Checkpoint,
    Lane,
    OneProcess,
    OneWriterLane,
    Opened,
    TableRule,
    TableShare,
    Work,
)
from tidelog.downstreams import pb_rows
from tidelog.downstreams.file_log import FileLog, Place
from tidelog.downstreams.pb_rows import RowEncoder
from tidelog.downstreams.target import Target
from tidelog.errors import (
    ConfigError,
    DirectoryLocked,
    DiskFull,
    InvariantBroken,
    IoFailed,
    Refused,
    Stopped,
    Unavailable,
)
from tidelog.failpoints import hit
from tidelog.pb_files import names, savepoint
from tidelog.pb_files.savepoint import Savepoint
from tidelog.ports import Disk, Lock
from tidelog.schema.structure import TableStructure
from tidelog.timestamps import physical_ms

log = structlog.get_logger()

CACHED_TABLES = 4096
DAY_MS = 86_400_000
IN_ORDER = TableRule(ordered=True, replaceable=False, keys=())
"""Nothing is folded: a file holds what happened, not what came of it."""
_ROOM_HINT = "it goes on by itself when there is room: free space, or set retention_days"
_OTHERS_HINT = "one directory holds one feed: give this feed an empty one"


class FilesDownstream(OneProcess):
    """`open_disk` makes the directory when missing. Opened again after an error."""

    def __init__(
        self, target: Target, open_disk: Callable[[str], Disk], *, if_free: bool = False
    ) -> None:
        self._target = target
        self._if_free = if_free
        self._open_disk = open_disk
        self._disk: Disk | None = None
        self._lock: Lock | None = None
        self._log: FileLog | None = None
        self._feed = ""
        self._schema_version = 0
        self._saved_ts = 0
        self._encoders: dict[tuple[str, str, int], RowEncoder] = {}

    async def open(self, feed: str) -> Opened:
        await self.close()
        await calls_ended()
        self._feed = feed
        try:
            return await self._open()
        except BaseException as error:
            await self.close()
            told = self._typed(error)
            if told is error:
                raise
            raise told from error

    async def _open(self) -> Opened:
        disk = self._disk = self._open_disk(self._target.path)
        self._lock = disk.lock(names.LOCK)
        saved = await self._load(disk)
        self._log = FileLog(disk, self._target.segment_bytes)
        cut = await self._log.open(_place(saved))
        if cut:
            log.info("cut what was not saved", directory=self._target.path, bytes=cut)
        # It may be of a life that ended before its rename was durable; from now on it is relied on.
        await disk.write_file(names.SAVEPOINT, savepoint.dump(saved))
        self._schema_version = saved.schema_version
        self._saved_ts = saved.commit_ts
        return Opened(_checkpoint(saved), atomic=True)

    def _typed(self, error: BaseException) -> BaseException:
        """What an operator is told of a directory that can't be opened."""
        if isinstance(error, DirectoryLocked):
            held = f"{self._target.shown} is being written: {error.message}"
            if self._if_free:
                return Refused(held, hint="nothing is taken from a writer that lives")
            return Unavailable(
                held, hint="it goes on when that process ends; one directory has one writer"
            )
        if isinstance(error, DiskFull):
            return Unavailable(f"{self._target.shown}: {error.message}", hint=_ROOM_HINT)
        if isinstance(error, IoFailed):
            return ConfigError(
                f"{self._target.shown} can't be opened: {error.message}",
                hint="name a directory that the Applier's user may write",
            )
        return error

    async def _load(self, disk: Disk) -> Savepoint:
        if not disk.exists(names.SAVEPOINT):
            if names.in_order(disk.listdir("")):
                raise Stopped(
                    f"{self._target.shown} holds binlog files, but no savepoint", hint=_OTHERS_HINT
                )
            # From now on the directory is ours: what an ended writer left in it may be cut.
            return Savepoint(0, feed=self._feed, file=-1)
        saved = savepoint.load(disk.read_file(names.SAVEPOINT))
        if saved.feed != self._feed or saved.file is None:
            owner = f"feed {saved.feed}" if saved.feed else "the original drainer"
            raise Stopped(f"{self._target.shown} belongs to {owner}", hint=_OTHERS_HINT)
        return saved

    async def rule(self, db: str, structure: TableStructure) -> TableRule:
        return IN_ORDER

    async def lane(self, number: int) -> Lane:
        """After an error everything is opened anew, so that what was half written is cut."""
        if self._log is None:
            await self.open(self._feed)
        return OneWriterLane(self._apply)

    async def _apply(self, work: Work) -> None:
        payloads = list(self._transactions(work))
        await self._write(payloads, work.checkpoint if work.ends else None, sync=work.ends)

    async def apply_ddl(self, ddl: DdlMessage, checkpoint: Checkpoint) -> list[str]:
        self._encoders.clear()
        self._schema_version = max(self._schema_version, ddl.schema_version)
        await self._write([(ddl.commit_ts, pb_rows.ddl(ddl))], checkpoint, sync=True)
        return []

    async def ddl_progress(self) -> str:
        return ""

    async def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        await self._write([], checkpoint, sync=False)

    async def close(self) -> None:
        """The directory is free once no call that its caller gave up writes there any more."""
        self._encoders.clear()
        opened, self._log = self._log, None
        if opened is not None:
            opened.close()
        lock, self._lock = self._lock, None
        if lock is not None:
            after_calls(lock.release)

    def _transactions(self, work: Work) -> Iterator[tuple[int, bytes]]:
        """A record each, in commit order; within one, table by table. Of a Work that comes again,
        since nobody knew what had become of it, nothing that the savepoint covers."""
        txns: dict[int, list[bytes]] = {}
        for share in work.shares:
            if share.deletes or share.inserts or share.updates:
                raise InvariantBroken("files take events in order, not what came of them")
            encoder = self._encoder(share.db, share.structure)
            for event in share.events:
                if event.commit_ts <= self._saved_ts:
                    continue
                txns.setdefault(event.commit_ts, []).append(_encoded(encoder, share, event))
        for commit_ts in sorted(txns):
            yield commit_ts, pb_rows.dml(commit_ts, txns[commit_ts])

    async def _write(
        self, payloads: list[tuple[int, bytes]], checkpoint: Checkpoint | None, *, sync: bool
    ) -> None:
        if self._log is None or self._disk is None:
            raise InvariantBroken("the downstream is used before it is opened")
        try:
            await self._log.append(payloads, sync=sync)
            if checkpoint is not None:
                hit("applier.files.before_savepoint")
                await self._save(self._disk, self._log, checkpoint)
        except DiskFull as error:
            await self.close()
            raise self._typed(error) from error

    async def _save(self, disk: Disk, opened: FileLog, checkpoint: Checkpoint) -> None:
        place = opened.place
        saved = Savepoint(
            checkpoint.commit_ts,
            checkpoint.consistent,
            self._schema_version,
            self._feed,
            place.file,
            place.offset,
            checkpoint.ddls_done,
            checkpoint.ts_map,
        )
        await disk.write_file(names.SAVEPOINT, savepoint.dump(saved))
        self._saved_ts = checkpoint.commit_ts
        if self._target.retention_days:
            oldest = physical_ms(checkpoint.commit_ts) - self._target.retention_days * DAY_MS
            for name in await opened.purge(oldest):
                log.info("removed by retention_days", file=name)

    def _encoder(self, db: str, structure: TableStructure) -> RowEncoder:
        key = (db, structure.name, structure.version)
        found = self._encoders.get(key)
        if found is None:
            if len(self._encoders) >= CACHED_TABLES:
                self._encoders.pop(next(iter(self._encoders)))
            found = self._encoders[key] = RowEncoder(db, structure)
            self._schema_version = max(self._schema_version, structure.version)
        return found


def _encoded(encoder: RowEncoder, share: TableShare, event: Event) -> bytes:
    try:
        return encoder.encode(event)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise Stopped(
            f"a row of {share.db}.{share.structure.name} at {event.commit_ts} can't be encoded:"
            f" {type(error).__name__} {error}",
            hint="its value is none of its column's type: look at it with `tidelog tail`",
        ) from error


def _place(saved: Savepoint) -> Place:
    return Place(-1 if saved.file is None else saved.file, saved.offset)


def _checkpoint(saved: Savepoint) -> Checkpoint | None:
    if not saved.commit_ts:
        return None
    return Checkpoint(
        saved.commit_ts, saved.consistent, saved.ts_map, saved.feed, ddls_done=saved.ddls_done
    )
