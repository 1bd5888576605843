"""TLS to a MySQL-speaking server: never less than what the URL asks for."""

from __future__ import annotations

import ssl

import aiomysql
import pymysql
from pymysql.constants import CLIENT, CR

from tidelog.downstreams.target import Tls
from tidelog.errors import ConfigError


def context(tls: Tls) -> ssl.SSLContext:
    """Reads the files anew each time, so that renewed ones need no restart. Raises ConfigError."""
    try:
        found = ssl.create_default_context(cafile=tls.ca or None)
        found.minimum_version = ssl.TLSVersion.TLSv1_2
        found.check_hostname = tls.verify == "full"
        if tls.verify == "none":
            found.verify_mode = ssl.CERT_NONE
        if tls.cert:
            found.load_cert_chain(tls.cert, tls.key or None)
    except (OSError, ssl.SSLError) as error:
        names = ", ".join(name for name in (tls.ca, tls.cert, tls.key) if name)
        raise ConfigError(
            f"the TLS files {names} of the downstream URL can't be used: {error}",
            hint="PEM files: tls_ca the authority's certificate, tls_cert and tls_key our own",
        ) from error
    return found


class TlsConnection(aiomysql.Connection):  # type: ignore[misc]
    """The driver goes on in the clear where a server (or who pretends to be it) offers no TLS."""

    async def _request_authentication(self) -> None:
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
