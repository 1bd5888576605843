"""The plan of a backfill under way, in the database that it fills: `tidb_binlog.backfill`."""

from __future__ import annotations

import msgspec

from tidelog.downstreams.literals import quote
from tidelog.downstreams.mysql_session import MysqlSession
from tidelog.downstreams.target import Target
from tidelog.errors import Stopped
from tidelog.unreadable import NOT_READABLE
from tidelog_backfill.snapshot.plan import SnapshotPlan

_TABLE = "`tidb_binlog`.`backfill`"
_CREATE = (
    f"CREATE TABLE IF NOT EXISTS {_TABLE} (feed VARCHAR(128) NOT NULL, part INT NOT NULL,"
    " plan LONGTEXT NOT NULL, PRIMARY KEY (feed, part)) ENGINE=InnoDB"
    " DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
)
PART_CHARS = 500_000
"""In a row; any server takes a statement of that size."""
_WHOLE = -1
"""The part, without text, that says that the copy is whole."""


class PlanTable:
    """One feed's. `tidb_binlog` is there. `anew`: `CopyTarget.anew`."""

    def __init__(self, place: Target, feed: str, anew: str) -> None:
        self._place = place
        self._feed = quote(feed)
        self._anew = anew

    async def load(self) -> SnapshotPlan | None:
        rows = await self._all(f"SELECT plan FROM {_TABLE} WHERE feed = {self._feed} ORDER BY part")
        if not rows:
            return None
        try:
            return msgspec.json.decode("".join(str(text) for (text,) in rows), type=SnapshotPlan)
        except NOT_READABLE as error:
            raise Stopped(
                f"the backfill's plan in {self._place.shown} can't be read: {error}",
                hint=f"to begin anew, {self._anew}",
            ) from error

    async def save(self, plan: SnapshotPlan) -> None:
        text = msgspec.json.encode(plan).decode()
        parts = [text[at : at + PART_CHARS] for at in range(0, len(text), PART_CHARS)]
        await self._all(
            "BEGIN",
            self._delete,
            *(
                f"REPLACE INTO {_TABLE} VALUES ({self._feed}, {number}, {quote(part)})"
                for number, part in enumerate(parts)
            ),
            "COMMIT",
        )

    async def say_whole(self) -> None:
        """The plan is carried out. It is kept on, to be forgotten last."""
        await self._all(f"REPLACE INTO {_TABLE} VALUES ({self._feed}, {_WHOLE}, '')")

    async def is_whole(self) -> bool:
        where = f"feed = {self._feed} AND part = {_WHOLE}"
        return bool(await self._all(f"SELECT part FROM {_TABLE} WHERE {where}"))

    async def forget(self) -> None:
        await self._all(self._delete)

    @property
    def _delete(self) -> str:
        return f"DELETE FROM {_TABLE} WHERE feed = {self._feed}"

    async def _all(self, *statements: str) -> list[tuple[object, ...]]:
        """The last one's rows."""
        session = await MysqlSession.connect(self._place)
        rows: list[tuple[object, ...]] = []
        try:
            for sql in (_CREATE, *statements):
                rows = await session.rows(sql)
        finally:
            await session.close()
        return rows
