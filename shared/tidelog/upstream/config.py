"""The table `[upstream]` of a service that asks the TiDB cluster itself."""

from __future__ import annotations

import msgspec

from tidelog.errors import ConfigError
from tidelog.security.tls import TlsFiles
from tidelog.upstream.pd_urls import is_tls


class UpstreamConfig(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """The TiDB cluster whose binlogs come here."""

    pd_urls: str = ""
    """Its PD servers, http://HOST:2379, commas between; https:// where they and TiKV use TLS."""
    security: TlsFiles = TlsFiles()
    """For PD, TiKV, and a TiDB's status address where ddl-history has https."""

    def __post_init__(self) -> None:
        """Raises ConfigError: an address would else be dialled in plain text, or a certificate be
        left out, and nobody told."""
        if not self.pd_urls:
            return
        tls = is_tls(self.pd_urls)
        if tls and not self.security.on:
            raise ConfigError(
                f"pd-urls {self.pd_urls} say https, and no file vouches for that cluster",
                hint="set upstream.security.ssl-ca (and ssl-cert, ssl-key where it asks for them)",
            )
        if self.security.on and not tls:
            raise ConfigError(
                f"upstream.security names files, and pd-urls {self.pd_urls} say http",
                hint="https:// in pd-urls, or take the files away",
            )
