"""The statements of one transaction in as few packets as may be, because each packet costs a round
trip. COMMIT goes out only once the fence has answered."""

from __future__ import annotations

from collections import Counter

import msgspec

from tidelog.downstream import TakenOver
from tidelog.downstreams.mysql_session import MysqlSession
from tidelog.downstreams.statements import PACKET_RESERVE, Statement

PACKET_BYTES = 256 << 10
PACKET_STATEMENTS = 256


class _Sent(msgspec.Struct, frozen=True):
    """`at`: the place of its answer in the packet's."""

    at: int
    statement: Statement
    table: str


class Packets:
    """Of one transaction. `unmatched`: rows by table that were not as they should have been."""

    def __init__(self, session: MysqlSession) -> None:
        self.unmatched: Counter[str] = Counter()
        self._session = session
        self._room = min(PACKET_BYTES, session.max_packet - PACKET_RESERVE)
        self._pending: list[bytes] = []
        self._bytes = 0
        self._expected: list[_Sent] = []
        self._fence_at = -1

    def begin(self, fence: str) -> None:
        """The transaction begins with this packet."""
        self._pending = [b"BEGIN", fence.encode()]
        self._fence_at = 1

    async def add(self, sql: str) -> None:
        raw = sql.encode()
        await self._make_room(len(raw))
        self._push(raw)

    async def put(self, statement: Statement, table: str) -> None:
        """Its `otherwise` runs after the packet: use `alone` where another one depends on it."""
        await self._make_room(len(statement.sql))
        for mode in self._session.mode_for(lenient=statement.lenient):
            self._push(mode)
        self._push(statement.sql)
        if statement.rows >= 0 or statement.otherwise:
            self._expected.append(_Sent(len(self._pending) - 1, statement, table))

    async def alone(self, statement: Statement, table: str) -> None:
        """In a packet of its own, with what follows from it."""
        await self.flush()
        await self.put(statement, table)
        await self.flush()

    async def flush(self) -> None:
        """Raises TakenOver, StatementRefused, Unavailable."""
        if not self._pending:
            return
        pending, self._pending, self._bytes = self._pending, [], 0
        expected, self._expected = self._expected, []
        fence_at, self._fence_at = self._fence_at, -1
        found = await self._session.run_all(pending)
        if fence_at >= 0 and found[fence_at] != 1:
            raise TakenOver("another Applier has taken over this feed's downstream")
        for sent in expected:
            await self._settle(sent, found[sent.at])

    async def end(self, *, commit: bool) -> None:
        """What is left, and COMMIT."""
        if self._fence_at >= 0 or self._expected or not commit:
            await self.flush()
        if commit:
            self._pending.append(b"COMMIT")
            await self.flush()

    async def _settle(self, sent: _Sent, matched: int) -> None:
        statement = sent.statement
        if statement.rows >= 0 and matched != statement.rows:
            self.unmatched[sent.table] += abs(statement.rows - matched)
        if matched == 0 and statement.otherwise:
            before = self._session.mode_for(lenient=statement.lenient)
            await self._session.run_all([*before, *statement.otherwise])

    async def _make_room(self, size: int) -> None:
        if self._bytes + size > self._room or len(self._pending) >= PACKET_STATEMENTS:
            await self.flush()

    def _push(self, sql: bytes) -> None:
        self._pending.append(sql)
        self._bytes += len(sql) + 1
