"""The checkpoint's row in `tidb_binlog.checkpoint` (design section 6). Pure.

A row belongs to one feed. The original keys it by the cluster id; two feeds of one cluster would
share a row, so a foreign feed's row is an error that asks for another place.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tidelog.downstream import Checkpoint
from tidelog.errors import Stopped
from tidelog_applier.downstreams.literals import quote

CREATE = (
    "CREATE DATABASE IF NOT EXISTS `tidb_binlog`",
    (
        "CREATE TABLE IF NOT EXISTS `tidb_binlog`.`checkpoint` (clusterID BIGINT UNSIGNED"
        " PRIMARY KEY, checkPoint MEDIUMTEXT) ENGINE=InnoDB"
        " DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
    ),
    (
        "CREATE TABLE IF NOT EXISTS `tidb_binlog`.`dropped` (table_id BIGINT UNSIGNED PRIMARY KEY,"
        " commit_ts BIGINT UNSIGNED NOT NULL, hidden VARCHAR(64) NOT NULL) ENGINE=InnoDB"
        " DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
    ),
)
CLUSTER_ID = 0
"""The row's key until feeds of several clusters share a downstream."""

_FOREIGN_HINT = (
    "one checkpoint table serves one feed: give this feed another downstream, or remove the row"
)


def select(feed: str) -> str:
    return "SELECT clusterID, checkPoint FROM `tidb_binlog`.`checkpoint` ORDER BY clusterID"


def load(rows: Sequence[tuple[int, str]], feed: str) -> Checkpoint | None:
    """The feed's checkpoint among all rows. Raises Stopped for another feed's."""
    for _, text in rows:
        try:
            found = msgspec.json.decode(text, type=Checkpoint)
        except msgspec.DecodeError as error:
            raise Stopped("the downstream's checkpoint can't be read", hint=str(error)) from error
        if found.feed == feed:
            return found
        owner = f"feed {found.feed}" if found.feed else "the original drainer"
        raise Stopped(f"the downstream's checkpoint belongs to {owner}", hint=_FOREIGN_HINT)
    return None


def dump(feed: str, checkpoint: Checkpoint) -> str:
    return msgspec.json.encode(msgspec.structs.replace(checkpoint, feed=feed)).decode()


def replace(feed: str, checkpoint: Checkpoint) -> str:
    text = quote(dump(feed, checkpoint))
    return f"REPLACE INTO `tidb_binlog`.`checkpoint` VALUES ({CLUSTER_ID}, {text})"
