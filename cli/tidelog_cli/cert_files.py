"""Where `tidelog certs` puts what it makes, and who uses which."""

from __future__ import annotations

from pathlib import Path

from tidelog.security.access import NatsAccess
from tidelog.security.tls import TlsFiles

NATS = "nats"
CA, CERT, KEY = "ca.pem", "cert.pem", "key.pem"


def nats_access(directory: Path, identity: str) -> NatsAccess:
    own = directory / identity
    return NatsAccess(
        nats_ca=str(directory / CA), nats_cert=str(own / CERT), nats_key=str(own / KEY)
    )


def grpc_files(directory: Path, identity: str) -> TlsFiles:
    own = directory / identity
    return TlsFiles(ssl_ca=str(directory / CA), ssl_cert=str(own / CERT), ssl_key=str(own / KEY))


def nats_block(directory: Path) -> str:
    """Of the NATS server's configuration: whoever connects needs a certificate of the authority."""
    own = directory / NATS
    return (
        f'tls {{ cert_file: "{own / CERT}", key_file: "{own / KEY}", ca_file: "{directory / CA}",'
        " verify: true, timeout: 5 }\n"
    )
