"""PEM files of both sides of TLS: read, and looked at before gRPC is, whose words say little."""

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
    if files.on:  # else it would be told whom the machine trusts, a tenth of a service's start
        client_context(files)
    return pem


def client_context(files: TlsFiles, *, named: str = "ssl") -> ssl.SSLContext:
    """Of who calls a server; without a ca, whoever the machine trusts vouches for that. `named`:
    how the settings begin that the files come from. Raises ConfigError, which names the file."""
    try:
        context = ssl.create_default_context(cafile=files.ssl_ca or None)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"{named}-ca {files.ssl_ca} can't be used: {tls_reason(error)}") from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        if files.ssl_cert:
            context.load_cert_chain(files.ssl_cert, files.ssl_key, password=_no_passphrase)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"{named}-cert {files.ssl_cert} and {named}-key {files.ssl_key} can't be used:"
            f" {tls_reason(error)}",
            hint="the PEM of a certificate, and of its own key without a passphrase",
        ) from None
    return context


def _read(path: str) -> bytes | None:
    try:
        return Path(path).read_bytes() if path else None
    except OSError as error:
        raise ConfigError(f"{path} can't be read: {error.strerror}") from None


def _no_passphrase() -> str:
    """Instead of a question on the terminal."""
    return ""


def tls_reason(error: OSError) -> str:
    """In a few words."""
    if isinstance(error, ssl.SSLError):
        return (error.reason or "it is no PEM").replace("_", " ").lower()
    return error.strerror or str(error)
