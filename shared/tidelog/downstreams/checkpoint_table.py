"""The checkpoint's row in `tidb_binlog.checkpoint` (design section 6). Pure.

A row belongs to one feed. The original keys it by the cluster id; two feeds of one cluster would
share a row, so a foreign feed's row is an error that asks for another place. Who doesn't know the
cluster's id finds the feed's row under whatever key it has; who does may find one at key 0 as well.
The newest counts, and goes on alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

import msgspec

from tidelog.downstream import Checkpoint
from tidelog.downstreams.literals import name, quote, table_name
from tidelog.errors import Refused, Stopped
from tidelog.unreadable import NOT_READABLE

STATE_DB = "tidb_binlog"
DEFAULT_PLACE = "tidb_binlog.checkpoint"
DROPPED = "`tidb_binlog`.`dropped_tables`"
_DROPPED = (
    f"CREATE TABLE IF NOT EXISTS {DROPPED} (owner VARCHAR(64) NOT NULL, table_id BIGINT UNSIGNED"
    " NOT NULL, commit_ts BIGINT UNSIGNED NOT NULL, hidden VARCHAR(64) NOT NULL,"
    " PRIMARY KEY (owner, table_id)) ENGINE=InnoDB"
    " DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
)
CLUSTER_ID = 0
"""The row's key as long as the cluster's id is not known."""

_FOREIGN_HINT = (
    "one row serves one feed: set checkpoint-table to another name for this feed, or remove the row"
)


class Found(msgspec.Struct, frozen=True):
    """The feed's newest checkpoint. `keys`: of all rows of the feed that may be ours, that one's
    first."""

    checkpoint: Checkpoint
    keys: tuple[int, ...]


class CheckpointTable(msgspec.Struct, frozen=True):
    """The table of one feed's checkpoint. `place`: `schema.table`."""

    feed: str
    place: str = DEFAULT_PLACE
    cluster_id: int = CLUSTER_ID
    epoch: int = 0

    @property
    def owner(self) -> str:
        """Of the progress of tables that go in order, and of dropped ones: each checkpoint has its
        own, so that who begins at another one neither trusts this one's nor takes it away. Ids of
        tables are one cluster's; two may come to one downstream."""
        if self.place == DEFAULT_PLACE:
            return self.feed
        return sha256(f"{self.feed}@{self.place}".encode()).hexdigest()

    @property
    def _names(self) -> tuple[str, str]:
        schema, _, table = self.place.rpartition(".")
        return schema or STATE_DB, table

    def create(self) -> tuple[str, ...]:
        schema, _ = self._names
        return (
            f"CREATE DATABASE IF NOT EXISTS `{STATE_DB}`",
            f"CREATE DATABASE IF NOT EXISTS {name(schema)}",
            (
                f"CREATE TABLE IF NOT EXISTS {table_name(*self._names)} (clusterID BIGINT UNSIGNED"
                " PRIMARY KEY, checkPoint MEDIUMTEXT) ENGINE=InnoDB"
                " DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
            ),
            _DROPPED,
        )

    def select(self) -> str:
        return f"SELECT clusterID, checkPoint FROM {table_name(*self._names)} ORDER BY clusterID"

    def check_cluster(self, rows: Sequence[tuple[int, str]]) -> None:
        """Locks, epochs and progress go by the feed's name alone. Raises Stopped where a row says
        that another cluster's feed has it; who doesn't know its own cluster's id can't tell."""
        if self.cluster_id == CLUSTER_ID:
            return
        for key, text in rows:
            if key not in (CLUSTER_ID, self.cluster_id) and _feed_of(text) == self.feed:
                raise Stopped(
                    f"a feed of the name {self.feed} of cluster {key} is written here, and this one"
                    f" is of cluster {self.cluster_id}",
                    hint="give one of them another name; if the other one is written here no more,"
                    f" remove the row {key} of {self.place}",
                )

    def check_copied(self, rows: Sequence[tuple[int, str]], where: str) -> None:
        """Raises Refused where a first copy is not whole, whether it is being written or was ended:
        the stream does not bring what it has not written."""
        found = load(rows, self.feed, self.cluster_id)
        if found is not None and found.checkpoint.copying:
            raise Refused(
                f"the first copy into {where}, as of {found.checkpoint.reach}, is not whole",
                hint="wait for its end, or give the same `tidelog backfill` again: it goes on"
                " behind its last chunk",
            )

    def with_key(self, found: Found | None) -> CheckpointTable:
        """Whoever doesn't know the cluster's id goes on writing the row that it found."""
        if self.cluster_id != CLUSTER_ID or found is None:
            return self
        return msgspec.structs.replace(self, cluster_id=found.keys[0])

    def adopt(self, found: Found) -> tuple[str, ...]:
        """The feed's newest row goes under our key, and the one it leaves behind goes: it would be
        taken for the newest by none, but read by people. Others' rows are not ours to touch."""
        table = table_name(*self._names)
        newest, *older = found.keys
        stale = [key for key in older if key in (CLUSTER_ID, self.cluster_id)]
        steps = [f"DELETE FROM {table} WHERE clusterID = {key}" for key in stale]
        if newest != self.cluster_id:
            steps.append(
                f"UPDATE {table} SET clusterID = {self.cluster_id} WHERE clusterID = {newest}"
            )
        return tuple(steps)

    def replace(self, checkpoint: Checkpoint) -> str:
        owned = msgspec.structs.replace(checkpoint, epoch=self.epoch)
        text = quote(dump(self.feed, owned))
        return f"REPLACE INTO {table_name(*self._names)} VALUES ({self.cluster_id}, {text})"


def _feed_of(text: str) -> str:
    """Of another's row; "" if it can't be read, which is not for us to mind."""
    try:
        return msgspec.json.decode(text, type=Checkpoint).feed
    except NOT_READABLE:
        return ""


def load(rows: Sequence[tuple[int, str]], feed: str, cluster_id: int = CLUSTER_ID) -> Found | None:
    """The feed's checkpoint among all rows: the one of the newest writer. Those of other clusters
    are not ours to read. Raises Stopped where another feed's row is in the way."""
    ours: list[tuple[int, Checkpoint]] = []
    foreign: list[tuple[int, Checkpoint]] = []
    for key, text in rows:
        if CLUSTER_ID not in (key, cluster_id) and key != cluster_id:
            continue
        try:
            found = msgspec.json.decode(text, type=Checkpoint)
        except NOT_READABLE as error:
            raise Stopped("the downstream's checkpoint can't be read", hint=str(error)) from error
        (ours if found.feed == feed else foreign).append((key, found))
    for key, found in foreign:
        if not ours or key == cluster_id != CLUSTER_ID:  # we would write over it
            owner = f"feed {found.feed}" if found.feed else "the original drainer"
            raise Stopped(f"the downstream's checkpoint belongs to {owner}", hint=_FOREIGN_HINT)
    if not ours:
        return None
    ours.sort(key=lambda row: (row[1].epoch, row[1].commit_ts, row[0] == cluster_id), reverse=True)
    return Found(ours[0][1], tuple(key for key, _ in ours))


def dump(feed: str, checkpoint: Checkpoint) -> str:
    return msgspec.json.encode(msgspec.structs.replace(checkpoint, feed=feed)).decode()
