"""The driver's connection, where it is not as strict or as clear as a session needs it."""

from __future__ import annotations

from typing import Any

import aiomysql
import pymysql
from pymysql.constants import CLIENT, CR


class MysqlConnection(aiomysql.Connection):  # type: ignore[misc]
    async def _connect(self) -> None:
        """One that is reset while it begins is told as lost: the loop says RuntimeError."""
        try:
            await super()._connect()
        except RuntimeError as error:
            if wants_tls(error):
                raise
            raise _lost() from error

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
        """One that was lost since the last answer is told as such: uvloop says RuntimeError."""
        if self.lost:
            raise _lost()
        super()._write_bytes(data)

    @property
    def lost(self) -> bool:
        """The other side's end is gone; ours may not know."""
        return self._writer is None or bool(self._writer.transport.is_closing())


def wants_tls(error: RuntimeError) -> bool:
    """The driver's word for a login that it makes in the clear only with another package."""
    return "cryptography" in str(error)


def _lost() -> pymysql.err.OperationalError:
    return pymysql.err.OperationalError(CR.CR_SERVER_LOST, "the connection was lost")
