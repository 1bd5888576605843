"""PEM files of gRPC's two sides: read, and looked at before gRPC is, whose words say little."""

from __future__ import annotations

import ssl
from pathlib import Path

import msgspec

from tidelog.errors import ConfigError
from tidelog.security.tls import TlsFiles


class Pem(msgspec.Struct, frozen=True):
    """None: not named."""

    ca: bytes | None
    cert: bytes | None
    key: bytes | None

    def __repr__(self) -> str:
        return "Pem(…)"


def read_pem(files: TlsFiles) -> Pem:
    """Raises ConfigError, which names the file that can't be read or does not fit the other."""
    pem = Pem(_read(files.ssl_ca), _read(files.ssl_cert), _read(files.ssl_key))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        if files.ssl_ca:
            context.load_verify_locations(files.ssl_ca)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"ssl-ca {files.ssl_ca} can't be used: {tls_reason(error)}") from None
    try:
        if files.ssl_cert:
            context.load_cert_chain(files.ssl_cert, files.ssl_key, password=no_passphrase)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"ssl-cert {files.ssl_cert} and ssl-key {files.ssl_key} can't be used:"
            f" {tls_reason(error)}",
            hint="the PEM of a certificate, and of its own key without a passphrase",
        ) from None
    return pem


def _read(path: str) -> bytes | None:
    try:
        return Path(path).read_bytes() if path else None
    except OSError as error:
        raise ConfigError(f"{path} can't be read: {error.strerror}") from None


def no_passphrase() -> str:
    """Instead of a question on the terminal."""
    return ""


def tls_reason(error: OSError) -> str:
    """In a few words."""
    if isinstance(error, ssl.SSLError):
        return (error.reason or "it is no PEM").replace("_", " ").lower()
    return error.strerror or str(error)
