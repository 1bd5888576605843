"""What we keep in `tidb_binlog` beside the checkpoint, and the mark table of loopbacks. Pure.

`worker(feed, worker, epoch, n)` is the fence: each transaction of a writer begins by counting in
its row, if that row still has the writer's epoch. Worker CONTROL is the control connection; its
count begins at the life of who raised the epoch.
`progress(feed, db, table, commit_ts, rows)` says how far an ordered table is applied: that many
rows of the transaction of commit_ts, and all before. `feed` is CheckpointTable.owner there.
`replay(feed, step, part)` holds the parts of a bulk job's step that are done.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

from tidelog.downstreams.literals import name, quote

CONTROL = -1
_TEXT = "DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
_WORKER = "`tidb_binlog`.`worker`"
_PROGRESS = "`tidb_binlog`.`progress`"
_REPLAY = "`tidb_binlog`.`replay`"
CREATE = (
    (
        f"CREATE TABLE IF NOT EXISTS {_WORKER} (feed VARCHAR(128) NOT NULL, worker INT NOT NULL,"
        " epoch BIGINT UNSIGNED NOT NULL, n BIGINT UNSIGNED NOT NULL DEFAULT 0,"
        f" PRIMARY KEY (feed, worker)) ENGINE=InnoDB {_TEXT}"
    ),
    (
        f"CREATE TABLE IF NOT EXISTS {_PROGRESS} (feed VARCHAR(128) NOT NULL,"
        " db VARCHAR(64) NOT NULL, `table` VARCHAR(64) NOT NULL,"
        " commit_ts BIGINT UNSIGNED NOT NULL, `rows` BIGINT UNSIGNED NOT NULL,"
        f" PRIMARY KEY (feed, db, `table`)) ENGINE=InnoDB {_TEXT}"
    ),
    (
        f"CREATE TABLE IF NOT EXISTS {_REPLAY} (feed VARCHAR(128) NOT NULL,"
        " step CHAR(32) NOT NULL, part INT NOT NULL,"
        f" PRIMARY KEY (feed, step, part)) ENGINE=InnoDB {_TEXT}"
    ),
)
_LOCK_CHARS = 64


def lock_name(feed: str, worker: int = CONTROL) -> str:
    """The advisory lock that the connection of a writer holds; a server takes 64 characters."""
    suffix = "" if worker == CONTROL else f".{worker}"
    found = f"tidelog.{feed}{suffix}"
    if len(found) <= _LOCK_CHARS:
        return found
    return f"tidelog.{sha256(feed.encode()).hexdigest()[:40]}{suffix}"


def release_lock(feed: str, worker: int) -> str:
    return f"SELECT RELEASE_LOCK({quote(lock_name(feed, worker))})"


def epochs(feed: str) -> str:
    return f"SELECT worker, epoch FROM {_WORKER} WHERE feed = {quote(feed)} FOR UPDATE"


def workers(feed: str) -> str:
    return f"SELECT worker FROM {_WORKER} WHERE feed = {quote(feed)}"


def epoch_of(feed: str, worker: int) -> str:
    return f"SELECT epoch, n FROM {_WORKER} WHERE feed = {quote(feed)} AND worker = {worker}"


def raise_epochs(feed: str, epoch: int, lanes: int, life: int) -> tuple[str, str]:
    """All rows of the feed, also those of lanes that we do not use."""
    values = ",".join(f"({quote(feed)},{worker},{epoch},0)" for worker in range(CONTROL, lanes))
    return (
        f"INSERT IGNORE INTO {_WORKER} (feed, worker, epoch, n) VALUES {values}",
        (
            f"UPDATE {_WORKER} SET epoch = {epoch}, n = IF(worker = {CONTROL}, {life}, n + 1)"
            f" WHERE feed = {quote(feed)}"
        ),
    )


def fence(feed: str, worker: int, epoch: int) -> str:
    """Matches one row as long as nobody has taken over."""
    return (
        f"UPDATE {_WORKER} SET n = n + 1 WHERE feed = {quote(feed)} AND worker = {worker}"
        f" AND epoch = {epoch}"
    )


def progress(owner: str, db: str, table: str) -> str:
    return (
        f"SELECT commit_ts, `rows` FROM {_PROGRESS} WHERE feed = {quote(owner)}"
        f" AND db = {quote(db)} AND `table` = {quote(table)}"
    )


def set_progress(owner: str, db: str, table: str, commit_ts: int, rows: int) -> str:
    return (
        f"REPLACE INTO {_PROGRESS} (feed, db, `table`, commit_ts, `rows`)"
        f" VALUES ({quote(owner)},{quote(db)},{quote(table)},{commit_ts},{rows})"
    )


def forget_progress(owner: str) -> str:
    return f"DELETE FROM {_PROGRESS} WHERE feed = {quote(owner)}"


def parts_done(feed: str, step: str) -> str:
    return f"SELECT part FROM {_REPLAY} WHERE feed = {quote(feed)} AND step = {quote(step)}"


def part_done(feed: str, step: str, part: int) -> str:
    return f"REPLACE INTO {_REPLAY} VALUES ({quote(feed)},{quote(step)},{part})"


def forget_parts(feed: str, step: str) -> str:
    """Those of other steps; of "" all."""
    return f"DELETE FROM {_REPLAY} WHERE feed = {quote(feed)} AND step <> {quote(step)}"


class MarkTable:
    """Seed 004's mark: a transaction that changes a row of its channel came from us, and the
    opposite direction's Drainer drops it. One row for each lane, so that they don't wait for each
    other. Whoever takes the rows away takes no mark: the next transaction puts its own back."""

    def __init__(self, schema: str, channel_id: int) -> None:
        self._schema = name(schema)
        self._table = f"{self._schema}.`_drainer_repl_mark`"
        self._channel_id = channel_id

    def prepare(self, lanes: int) -> Sequence[str]:
        values = ",".join(f"({lane},{self._channel_id},1,'')" for lane in range(lanes))
        return (
            f"CREATE DATABASE IF NOT EXISTS {self._schema}",
            (
                f"CREATE TABLE IF NOT EXISTS {self._table} (`id` bigint(20) NOT NULL,"
                " `channel_id` bigint(20) NOT NULL DEFAULT '0', `val` bigint(20) DEFAULT '0',"
                " `channel_info` varchar(64) DEFAULT NULL, PRIMARY KEY (`id`,`channel_id`))"
            ),
            f"REPLACE INTO {self._table} (id, channel_id, val, channel_info) VALUES {values}",
        )

    def mark(self, lane: int) -> str:
        return (
            f"INSERT INTO {self._table} (id, channel_id, val, channel_info)"
            f" VALUES ({lane},{self._channel_id},1,'') ON DUPLICATE KEY UPDATE val = val + 1"
        )
