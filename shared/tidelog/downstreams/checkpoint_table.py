"""The checkpoint's row in `tidb_binlog.checkpoint` (design section 6). Pure.

A row belongs to one feed. The original keys it by the cluster id; two feeds of one cluster would
share a row, so a foreign feed's row is an error that asks for another place.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

import msgspec

from tidelog.downstream import Checkpoint
from tidelog.downstreams.literals import name, quote, table_name
from tidelog.errors import Stopped
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

    def adopt(self) -> str:
        """The feed's row of a time when the cluster's id was not known. None of it = no effect."""
        table = table_name(*self._names)
        return f"UPDATE {table} SET clusterID = {self.cluster_id} WHERE clusterID = {CLUSTER_ID}"

    def replace(self, checkpoint: Checkpoint) -> str:
        owned = msgspec.structs.replace(checkpoint, epoch=self.epoch)
        text = quote(dump(self.feed, owned))
        return f"REPLACE INTO {table_name(*self._names)} VALUES ({self.cluster_id}, {text})"


def load(
    rows: Sequence[tuple[int, str]], feed: str, cluster_id: int = CLUSTER_ID
) -> Checkpoint | None:
    """The feed's checkpoint among all rows. Those of other clusters are not ours to read. Raises
    Stopped for another feed's."""
    for key, text in rows:
        if CLUSTER_ID not in (key, cluster_id) and key != cluster_id:
            continue
        try:
            found = msgspec.json.decode(text, type=Checkpoint)
        except NOT_READABLE as error:
            raise Stopped("the downstream's checkpoint can't be read", hint=str(error)) from error
        if found.feed == feed:
            return found
        owner = f"feed {found.feed}" if found.feed else "the original drainer"
        raise Stopped(f"the downstream's checkpoint belongs to {owner}", hint=_FOREIGN_HINT)
    return None


def dump(feed: str, checkpoint: Checkpoint) -> str:
    return msgspec.json.encode(msgspec.structs.replace(checkpoint, feed=feed)).decode()
