"""How far a DDL is that runs on another connection, and its end if it takes too long.

Nothing is told on the DDL's own connection until it is done. So a second one asks the server's list
of processes: what it does, how much of it, and whether the first one is there at all.
"""

from __future__ import annotations

from typing import Any

import structlog

from tidelog.downstreams.mysql_session import MysqlSession
from tidelog.downstreams.structure_ddl import Flavor
from tidelog.downstreams.target import Target
from tidelog.errors import TidelogError

log = structlog.get_logger()

_SERVER = "@@hostname, @@port, @@server_id"


class DdlWatch:
    """Of one DDL on `watched`. `limit_s`: one statement may take so long, 0 = as long as it takes.
    `overran`: it took longer, and was ended."""

    def __init__(
        self, target: Target, flavor: Flavor, watched: MysqlSession, limit_s: float
    ) -> None:
        self._target = target
        self._is_mariadb = flavor.product == "mariadb"
        self._watched = watched
        self._limit_s = limit_s
        self._id = 0
        self._server: tuple[Any, ...] = ()
        self._session: MysqlSession | None = None
        self.overran = False

    async def begin(self) -> None:
        """Before the DDL's first statement, on its connection."""
        rows = await self._watched.rows(f"SELECT CONNECTION_ID(), {_SERVER}")
        number, *server = rows[0]
        self._id, self._server = int(number), tuple(server)

    def end(self) -> None:
        """A look that is under way then sees nothing."""
        self._id = 0
        if self._session is not None:
            self._session.discard()

    async def look(self) -> str:
        """What the statement does now; "" if nobody can say. Ends one that runs for too long."""
        if not self._id:
            return ""
        try:
            if self._session is None or self._session.closed:
                self._session = await MysqlSession.connect(self._target)
            if not await self._is_there(self._session):
                return ""
            found = await self._session.rows(self._question())
            return await self._judge(self._session, found)
        except TidelogError as error:
            log.info("nobody says how far the ddl is", reason=str(error))
            return ""

    async def _is_there(self, session: MysqlSession) -> bool:
        """Is it the DDL's server that answers? Behind a proxy it may be another one, which knows
        nothing of the DDL, and has others under its number."""
        rows = await session.rows(f"SELECT {_SERVER}")
        if tuple(rows[0]) == self._server:
            return True
        session.discard()
        return False

    def _question(self) -> str:
        more = "QUERY_ID, STAGE, MAX_STAGE, PROGRESS" if self._is_mariadb else "0, 0, 0, 0"
        return (
            f"SELECT STATE, TIME, {more} FROM information_schema.PROCESSLIST WHERE ID = {self._id}"
        )

    async def _judge(self, session: MysqlSession, found: list[tuple[Any, ...]]) -> str:
        if not self._id:
            return ""
        if not found:
            # The server has ended the connection, and the news of it got lost on the way.
            log.warning("the ddl's connection is gone from the server")
            self._watched.discard()
            return ""
        state, seconds, query, stage, stages, percent = found[0]
        if self._limit_s and int(seconds) > self._limit_s and not self.overran:
            await self._end(
                session, f"QUERY ID {query}" if self._is_mariadb else f"QUERY {self._id}"
            )
        return told(str(state or ""), int(seconds), int(stage), int(stages), float(percent))

    async def _end(self, session: MysqlSession, what: str) -> None:
        """Whose order got lost gives it again at its next look."""
        self.overran = True  # before the answer: the statement's own end may come first
        try:
            await session.run(f"KILL {what}")
        except BaseException:
            self.overran = False
            raise


def told(state: str, seconds: int, stage: int, stages: int, percent: float) -> str:
    """`copy to tmp table 43 %, stage 1 of 2, 12 s`."""
    progress = f" {percent:.0f} %" if stages else ""
    staged = f", stage {stage} of {stages}" if stages > 1 else ""
    return f"{state or 'running'}{progress}{staged}, {seconds} s"
