"""TLS of a Pump's gRPC service, as its configuration and its callers have it."""

from __future__ import annotations

import msgspec

from tidelog.errors import ConfigError


class TlsFiles(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """The original's table `[security]`. Paths of PEM files; all empty = no TLS."""

    ssl_ca: str = ""
    """Who vouches for the other side; a server asks everybody for a certificate then."""
    ssl_cert: str = ""
    """Our own certificate."""
    ssl_key: str = ""
    """Its key, without a passphrase."""
    cert_allowed_cn: tuple[str, ...] = ()
    """Names, one of which a caller's certificate must have (its CN, or one of its SANs); empty =
    whoever ssl-ca vouches for. A caller checks the Pump's for the first, not for its address."""

    def __post_init__(self) -> None:
        """Raises ConfigError."""
        if bool(self.ssl_cert) != bool(self.ssl_key):
            raise ConfigError("ssl-cert and ssl-key go together", hint="set both, or none")
        if self.cert_allowed_cn and not self.ssl_ca:
            raise ConfigError(
                "cert-allowed-cn means nothing without ssl-ca", hint="set ssl-ca, or take it away"
            )

    @property
    def on(self) -> bool:
        return bool(self.ssl_ca or self.ssl_cert)
