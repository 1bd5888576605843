"""The Pump with one step of its storage done wrong: each has to be caught by some crash state."""

from __future__ import annotations

from tests.crash.mutation import NTH, Mutation
from tidelog import record
from tidelog_pump.index.believed import Believed
from tidelog_pump.index.believed_file import BelievedFile
from tidelog_pump.index.indexer import Indexer
from tidelog_pump.log.opening import Opening
from tidelog_pump.log.segments import Segments
from tidelog_pump.retention.gc_actor import Gc
from tidelog_pump.write.writer import Writer

PUMP_MUTATIONS = (
    Mutation(
        "what a failed fsync left in the cache only synced",
        f"{NTH}pump",
        Opening,
        "_mend",
        "await file.rewrite(known.offset)",
        "await file.sync()",
    ),
    Mutation(
        "acked after a failed fsync",
        f"{NTH}pump",
        Segments,
        "append",
        "offset = await self._files[fid].append(chunks, sync=self.sync)",
        "offset = await self._files[fid].append(chunks, sync=False)\n"
        "    try:\n"
        "        await self._files[fid].sync()\n"
        "    except Exception as error:\n"
        "        log.warning('no sync', error=error)",
    ),
    Mutation(
        "a half written batch appended to",
        f"{NTH}pump",
        Opening,
        "_mend",
        "await file.truncate(good)",
        "pass",
    ),
    Mutation(
        "acked without an fsync", "append", Segments, "append", "sync=self.sync", "sync=False"
    ),
    Mutation(
        "acked before the write",
        "append",
        Writer,
        "_write_held",
        "written = await",
        "self._answer(group, outcomes); written = await",
    ),
    Mutation(
        "the synced offset before the sync",
        "append",
        Segments,
        "append",
        "offset = await",
        "self._synced.note(Synced(fid, self._end + sum(map(len, chunks)), max_ts)); offset = await",
    ),
    Mutation(
        "a new segment's entry not synced",
        "rotate",
        Segments,
        "_create",
        "await self._disk.sync_dir(DIRECTORY)",
        "pass",
    ),
    Mutation(
        "the directory's own entry not synced",
        "first start",
        Segments,
        "open",
        'await self._disk.sync_dir(".")',
        "pass",
    ),
    Mutation("a torn tail kept", "append", Opening, "_mend", "await file.truncate(good)", "pass"),
    Mutation(
        "checksums not looked at", "append", record, "split", "check(payload) != crc", "False"
    ),
    Mutation(
        "the magic before zeros taken for a record",
        "unsynced",
        record,
        "split",
        "not 0 < length <= MAX_PAYLOAD",
        "length > MAX_PAYLOAD",
    ),
    Mutation(
        "a footer believed in the middle of a torn record",
        "append",
        Opening,
        "_mend",
        "file.size - good == record.FOOTER_BYTES and footer == self.max_ts",
        "footer is not None",
    ),
    Mutation(
        "the synced offset behind a footer",
        "seal",
        Segments,
        "_seal",
        "Synced(*self.end, self._max_ts)",
        "Synced(self.end.fid, file.size, self._max_ts)",
    ),
    Mutation("a footer not synced", "rotate", Segments, "rotate", "sync=True", "sync=False"),
    Mutation(
        "the catalog before the next segment",
        "rotate",
        Segments,
        "rotate",
        "self._close_last()",
        "self._close_last(); await self._save_catalog()",
    ),
    Mutation(
        "the index in two writes",
        "index",
        Indexer,
        "_write",
        "self._store.write(changes.puts, changes.deletes)",
        "self._store.write(changes.puts, ()); self._store.write((), changes.deletes)",
    ),
    Mutation(
        "an index ahead of the log believed",
        "unsynced",
        Indexer,
        "_stored_head",
        "head if fits and self._segments.is_boundary(at) else None",
        "head",
    ),
    Mutation(
        "marks of W behind the end of the log kept",
        "marks",
        BelievedFile,
        "load",
        "start < mark.at <= end",
        "start < mark.at",
    ),
    Mutation(
        "a record judged by the mark before it",
        "marks",
        Believed,
        "up_to",
        "return self.marks[after].ts if after < len(self.marks) else None",
        "return self.marks[after - 1].ts if after else None",
    ),
    Mutation(
        "segments deleted before the purge point",
        "gc",
        Gc,
        "_delete",
        "await self._purge.move(",
        "await self._segments.remove(range(first)); await self._purge.move(",
    ),
)
