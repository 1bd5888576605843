"""The driver's connection, where it is not as strict or as clear as a session needs it."""

from __future__ import annotations

import asyncio
from typing import Any, Self

import aiomysql
import pymysql
from pymysql.constants import CLIENT, CR

from tidelog.downstreams.mysql_tls import context
from tidelog.downstreams.target import Target

CLOSE_S = 1.0
"""How long a server may take to say goodbye, which under TLS takes two."""


def driver_arguments(target: Target) -> dict[str, Any]:
    """Of aiomysql and of pymysql. Raises ConfigError: files of TLS."""
    return {
        "host": target.host,
        "port": target.port,
        "unix_socket": target.unix_socket or None,
        "user": target.user,
        # The driver writes latin1; so the server gets UTF-8.
        "password": target.password.encode().decode("latin1"),
        "charset": "utf8mb4",
        "autocommit": True,
        "program_name": "tidelog",
        "ssl": context(target.tls) if target.tls is not None else None,
    }


class MysqlConnection(aiomysql.Connection):  # type: ignore[misc]
    """One that is lost, or that another task discards meanwhile, is told as lost: uvloop says
    RuntimeError, and the driver AttributeError."""

    @classmethod
    def to(cls, target: Target) -> Self:
        """Not connected yet. Raises ConfigError: files of TLS."""
        return cls(**driver_arguments(target), client_flag=CLIENT.FOUND_ROWS)

    def discard(self) -> None:
        """Cut it without a word: the server rolls back what was open."""
        if self._writer is not None:
            self._writer.transport.abort()
            self.close()

    async def end(self) -> None:
        """Say goodbye; nothing of it is left afterwards, if the server answers or not."""
        if self.lost:
            self.discard()
            return
        writer = self._writer
        try:
            async with asyncio.timeout(CLOSE_S):
                await self.ensure_closed()
                await writer.wait_closed()
        except BaseException as error:
            writer.transport.abort()
            self.close()
            if not isinstance(error, OSError):
                raise

    def _close_on_cancel(self) -> None:
        """The driver's, of a query that is cancelled; it would wait for the goodbye of a server
        that is still busy with it."""
        self.discard()
        super()._close_on_cancel()

    def _set_keep_alive(self) -> None:
        """What the driver asks of the socket first."""
        self._check()
        super()._set_keep_alive()

    async def _request_authentication(self) -> None:
        """Never in the clear if TLS is asked for, as the driver is where a server (or who pretends
        to be it) offers none."""
        if self._ssl_context and not self.server_capabilities & CLIENT.SSL:
            raise pymysql.err.OperationalError(CR.CR_SSL_CONNECTION_ERROR, "it offers no TLS")
        try:
            await super()._request_authentication()
        except BaseException:
            # The driver closes it, which under TLS waits for the other side's goodbye: the socket
            # of a refused login would outlive the loop.
            if self._writer is not None:
                self._writer.transport.abort()
            raise

    def _write_bytes(self, data: Any) -> None:
        self._check()
        super()._write_bytes(data)

    async def _read_bytes(self, num_bytes: int) -> bytes:
        """What had come before the connection was lost can still be read."""
        if self._reader is None:
            raise _lost()
        return bytes(await super()._read_bytes(num_bytes))

    def _check(self) -> None:
        if self.lost:
            raise _lost()

    @property
    def lost(self) -> bool:
        """The other side's end is gone; ours may not know."""
        return self._writer is None or bool(self._writer.transport.is_closing())


def _lost() -> pymysql.err.OperationalError:
    return pymysql.err.OperationalError(CR.CR_SERVER_LOST, "the connection was lost")
