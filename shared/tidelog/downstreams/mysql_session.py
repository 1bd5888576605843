"""One connection to a MySQL-speaking server, with errors typed (library-traps.md G21–G23).

A query in flight is never cancelled and then followed by another: whatever interrupts one throws
the connection away, because the next answer on it could be another query's.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pymysql

from tidelog.downstreams import failures
from tidelog.downstreams.failures import PACKET_TOO_LARGE, Course, failure
from tidelog.downstreams.mysql_connection import MysqlConnection
from tidelog.downstreams.target import Target
from tidelog.errors import ConfigError, TidelogError, Unavailable

STORE_EVERYTHING = (
    "NO_BACKSLASH_ESCAPES,NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES,NO_ENGINE_SUBSTITUTION"
)
"""Zero dates and invalid dates are TiDB values; an AUTO_INCREMENT of 0 is one too."""
ESCAPING = "NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES,NO_ENGINE_SUBSTITUTION"
"""A definition as the server prints it is read in this mode: MariaDB escapes there always."""
STRICT = "STRICT_ALL_TABLES," + STORE_EVERYTHING
"""A value that the column would cut or change is an error, never a warning nobody reads."""

_ROLLED_BACK = frozenset((1020, 1205, 1213, 9007))
"""A deadlock, a lock that was waited for too long, TiDB's conflict of optimistic transactions."""
GONE_MS = 60_000
_KEEP_ALIVE = {
    "TCP_KEEPIDLE": 20,
    "TCP_KEEPINTVL": 10,
    "TCP_KEEPCNT": 4,
    "TCP_USER_TIMEOUT": GONE_MS,
}
"""A server whose machine is gone says nothing, and a statement may take hours: about a minute after
it last answered the kernel's questions the connection is lost, instead of two hours."""

_SETTINGS = (
    "SET SESSION foreign_key_checks=0",
    "SET SESSION unique_checks=1",
    "SET SESSION time_zone='+00:00'",
    f"SET SESSION sql_mode='{STRICT}'",
    "SET NAMES utf8mb4",
    "SET SESSION transaction isolation level read committed",
    "SET SESSION wait_timeout=86400",  # a bulk replay's job may run for long without a word of ours
)


class StatementRefused(TidelogError):
    """The server works and won't run this statement. `code` is its error number."""

    def __init__(self, code: int, message: str, sql: str) -> None:
        found = failure(code)
        said = f"the downstream refused a statement ({code}): {message}: {sql[:200]}"
        super().__init__(said, hint=found.hint)
        self.code = code
        self.is_about_data = found.about_data


class WorkRolledBack(Unavailable):
    """The server gave up our transaction for another's sake: nothing of it is there."""

    definite = True


class MysqlSession:
    """Not for two tasks at once. After any error from the network it is closed."""

    def __init__(self, connection: MysqlConnection, where: str) -> None:
        self._connection = connection
        self.where = where
        self._mode = STRICT
        self.max_packet = 1 << 20
        self.strict = True
        """False: what `mode_for` gives never is the strict mode."""

    @classmethod
    async def connect(cls, target: Target) -> MysqlSession:
        """Raises ConfigError (wrong account), Unavailable."""
        session = cls(MysqlConnection.to(target), target.shown)
        try:
            # The whole of it: a server may take the connection and say nothing.
            async with asyncio.timeout(target.connect_timeout_s):
                await session._connection._connect()
                session._notice_silence()
                await session._prepare()
        except (pymysql.err.MySQLError, OSError) as error:
            session.discard()
            raise typed(error, target.shown, "") from error
        except RuntimeError as error:
            session.discard()
            hint = "add ?tls=on (and tls_ca=FILE) to the downstream URL: this login needs TLS"
            raise ConfigError(f"{target.shown}: {error}", hint=hint) from error
        except BaseException:
            session.discard()
            raise
        return session

    def _notice_silence(self) -> None:
        link = self._connection._writer.transport.get_extra_info("socket")
        if link.family != socket.AF_UNIX:
            for name, value in _KEEP_ALIVE.items():
                if hasattr(socket, name):
                    link.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)

    async def _prepare(self) -> None:
        for setting in _SETTINGS:
            await self.run(setting)
        (found,) = await self.rows(
            "SELECT @@session.sql_mode, @@character_set_client, @@foreign_key_checks,"
            " @@max_allowed_packet"
        )
        _confirm(self.where, *(str(value) for value in found[:3]))
        self.max_packet = int(found[3])

    @property
    def closed(self) -> bool:
        return bool(self._connection.closed)

    async def run(self, sql: str | bytes) -> int:
        """Run a statement; returns the rows it matched. Raises StatementRefused, Unavailable."""
        return (await self._query(sql)).affected_rows or 0

    async def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return list((await self._query(sql)).rows or ())

    async def run_all(self, statements: Sequence[bytes]) -> list[int]:
        """Statements in one packet, each run only if those before it were; the rows each one
        matched."""
        known, self._mode = self._mode, ""  # unless all went well, nobody knows
        result = await self._query(b";".join(statements))
        found = [result.affected_rows or 0]
        while result.has_next:
            with self._guarded(statements[len(found)]):
                await self._connection.next_result()
            result = self._connection._result
            found.append(result.affected_rows or 0)
        self._mode = known
        return found

    def mode_for(self, *, lenient: bool) -> list[bytes]:
        """The statement that must precede one of this kind, if any."""
        mode = STORE_EVERYTHING if lenient or not self.strict else STRICT
        if self._mode == mode:
            return []
        self._mode = mode
        return [f"SET SESSION sql_mode='{mode}'".encode()]

    async def run_lenient(self, sql: str) -> None:
        """Values that don't fit are cut, as TiDB did in its own conversion."""
        await self.use(STORE_EVERYTHING)
        await self.run(sql)
        await self.use(STRICT)

    async def use(self, mode: str) -> None:
        """Set the session's sql_mode."""
        if self._mode != mode:
            await self.run(f"SET SESSION sql_mode='{mode}'")
            self._mode = mode

    async def _query(self, text: str | bytes) -> Any:
        sql = text.encode() if isinstance(text, str) else text
        if len(sql) + 2 > self.max_packet:
            # With its command byte as long as the limit. The server would cut the connection, which
            # looks like one that is lost for a while.
            message = f"{len(sql)} bytes are above its max_allowed_packet of {self.max_packet}"
            raise StatementRefused(PACKET_TOO_LARGE, message, _shown(sql))
        with self._guarded(sql):
            await self._connection.query(sql)
        # The result as a whole: rows, affected_rows.
        return self._connection._result

    @contextmanager
    def _guarded(self, sql: bytes) -> Iterator[None]:
        """Whatever interrupts a query costs the connection, unless the server answered. (The driver
        tells the socket's errors by its own.)"""
        try:
            yield
        except pymysql.err.MySQLError as error:
            raise self._met(error, sql) from error
        except BaseException:
            self.discard()
            raise

    def _met(self, error: Exception, sql: bytes) -> TidelogError:
        met = typed(error, self.where, _shown(sql))
        if isinstance(met, Unavailable) and not isinstance(met, WorkRolledBack):
            self.discard()
        return met

    def discard(self) -> None:
        """Cut the connection without a word: the server rolls back what was open."""
        self._connection.discard()

    async def close(self) -> None:
        await self._connection.end()


def _shown(sql: bytes) -> str:
    return sql[:400].decode(errors="replace")


def _confirm(where: str, mode: str, charset: str, foreign_keys: str) -> None:
    """What a session of ours rests on must have stayed as it was set."""
    lost = set(STRICT.split(",")) - set(mode.upper().split(","))
    if lost or charset != "utf8mb4" or foreign_keys not in ("0", "OFF"):
        raise ConfigError(
            f"{where} does not keep what a session sets: sql_mode={mode}, character set {charset},"
            f" foreign_key_checks={foreign_keys}",
            hint="connect to the server itself, not by a proxy whose clients share connections",
        )


def typed(error: Exception, where: str, sql: str) -> TidelogError:
    """The error of a driver or socket as one of ours."""
    code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    message = str(error.args[1]) if len(error.args) > 1 else str(error)
    # The driver gives a handshake that failed no number of its own.
    found = failures.TLS if isinstance(error.__cause__, ssl.SSLError) else failure(code)
    match found.course:
        case Course.STOP:
            return ConfigError(f"{where} does not let us in ({code}): {message}", hint=found.hint)
        case Course.RETRY:
            why = f"{where} can't be used now ({code}): {message}"
            kind = WorkRolledBack if code in _ROLLED_BACK else Unavailable
            return kind(why, hint=found.hint)
        case Course.POLICY:
            return StatementRefused(code, message, sql)
