"""What is no Pump with one step of its storage done wrong: the relay log, checkpoints, the DDL
history, decisions."""

from __future__ import annotations

from tests.crash.mutation import NTH, Mutation
from tidelog import synced
from tidelog.downstreams.file_log import FileLog
from tidelog.downstreams.files import FilesDownstream
from tidelog.pump_client.decisions.journal import Journal
from tidelog.relay.files import Folder
from tidelog.relay.log import RelayLog
from tidelog.relay.opening import Opening
from tidelog_drainer.merge.sources import Sources
from tidelog_drainer.publish import lives
from tidelog_registry.ddl_store import DdlStore

RELAY = (
    Mutation(
        "handed on without an fsync",
        "relay",
        RelayLog,
        "append",
        "sync=bool(writing.handed)",
        "sync=False",
    ),
    Mutation(
        "the relay's synced offset before the sync",
        "relay",
        RelayLog,
        "append",
        "await part.file.append(",
        "self._synced.note(Synced(part.number, writing.whole_up_to, writing.end));"
        " await part.file.append(",
    ),
    Mutation(
        "a relay's torn tail kept",
        "relay",
        Opening,
        "_mend",
        "await file.truncate(good)",
        "pass",
    ),
    Mutation(
        "pieces of nothing whole kept",
        "large relay",
        Opening,
        "_mend",
        "good < file.size",
        "good < known.offset",
    ),
    Mutation(
        "a new relay file's header not synced",
        "relay",
        RelayLog,
        "_begin",
        "sync=True",
        "sync=False",
    ),
    Mutation(
        "a new relay file's entry not synced",
        "relay",
        RelayLog,
        "_begin",
        "await self._folder.sync()",
        "pass",
    ),
    Mutation(
        "the relay's directory not synced",
        "relay",
        Folder,
        "make",
        "await self.disk.sync_dir(place)",
        "pass",
    ),
    Mutation(
        "a relay file purged that holds what is not applied",
        "purge",
        RelayLog,
        "purge",
        "self._parts[1].prev_commit_ts <= below",
        "self._parts[0].prev_commit_ts <= below",
    ),
    Mutation(
        "the newest relay file purged",
        "purge",
        RelayLog,
        "purge",
        "self._parts.pop(0)",
        "self._parts.pop()",
    ),
)
CHECKPOINT = (
    Mutation(
        "an epoch overwritten in place",
        "drainer",
        lives,
        "_store",
        "await ports.disk.write_file(EPOCH_FILE, ",
        "(await ports.disk.open(EPOCH_FILE, create=True)).overwrite(",
    ),
    Mutation(
        "sources kept later",
        "drainer",
        Sources,
        "_write",
        "await self._disk.write_file(",
        "self._kept.pumps and await self._disk.write_file(",
    ),
    Mutation(
        "the checkpoint before its rows are synced",
        "files",
        FilesDownstream,
        "_apply",
        "sync=work.ends",
        "sync=False",
    ),
    Mutation(
        "what no checkpoint covers is kept",
        "files",
        FileLog,
        "open",
        "await file.truncate(place.offset)",
        "pass",
    ),
    Mutation(
        "a new file's entry not synced",
        "files",
        FileLog,
        "_begin",
        'await self._disk.sync_dir("")',
        "pass",
    ),
    Mutation(
        "old files go in any order",
        "files",
        FileLog,
        "purge",
        'await self._disk.sync_dir("")',
        "pass",
    ),
    Mutation("a DDL acked without an fsync", "ddls", DdlStore, "_keep", "sync=True", "sync=False"),
    Mutation(
        "a DDL history's torn tail kept",
        "ddls",
        DdlStore,
        "_recover",
        "await self._file.truncate(position)",
        "pass",
    ),
    Mutation(
        "a decision acked without an fsync",
        "decisions",
        Journal,
        "append",
        "sync=True",
        "sync=False",
    ),
    Mutation(
        "a torn synced offset believed",
        "decisions",
        synced,
        "unpack",
        "_CRC.unpack(crc)[0] == crc32c(body)",
        "True",
    ),
)
CALLS = (
    Mutation(
        "what a failed fsync left of a relay file only synced",
        f"{NTH}relay",
        Opening,
        "_mend",
        "await file.rewrite(known.offset)",
        "await file.sync()",
    ),
    Mutation(
        "what a failed fsync left of a DDL history believed",
        f"{NTH}ddls",
        DdlStore,
        "_recover",
        "await self._file.rewrite(synced)",
        "pass",
    ),
    Mutation(
        "a checkpoint believed whose rename was not durable",
        f"{NTH}files",
        FilesDownstream,
        "_open",
        "await disk.write_file(names.SAVEPOINT, savepoint.dump(saved))",
        "pass",
    ),
    Mutation(
        "handed on after a failed fsync",
        f"{NTH}relay",
        RelayLog,
        "append",
        "await part.file.append(writing.chunks, sync=bool(writing.handed))",
        "await part.file.append(writing.chunks, sync=False)\n"
        "    try:\n"
        "        await part.file.sync()\n"
        "    except Exception:\n"
        "        pass",
    ),
    Mutation(
        "a half written relay record appended to",
        f"{NTH}relay",
        Opening,
        "_mend",
        "await file.truncate(good)",
        "pass",
    ),
)
STORE_MUTATIONS = RELAY + CHECKPOINT + CALLS
