"""TLS of the gRPC edge: who may connect, and who of them may call."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import grpc
import structlog

from tidelog.errors import ConfigError, Forbidden
from tidelog.real.pem import Pem, read_pem
from tidelog.security.tls import TlsFiles

log = structlog.get_logger()

_NAMES = ("x509_common_name", "x509_subject_alternative_name")


def server_credentials(files: TlsFiles) -> grpc.ServerCredentials:
    """Its files are read again before each handshake, so that new certificates need no restart;
    where they can't be used then, it goes on with those before. Raises ConfigError."""
    if not files.ssl_cert:
        raise ConfigError("ssl-ca needs ssl-cert and ssl-key beside it", hint="set all three")
    known = read_pem(files)
    told = ""

    def fetch() -> Any:
        nonlocal known, told
        try:
            found = read_pem(files)
        except ConfigError as error:
            if error.message != told:
                told = error.message
                log.error("the certificates stay as they were", error=error.message)
            return None
        if found == known:
            return None  # gRPC goes on with what it has
        known, told = found, ""
        log.info("new certificates are used from now on", cert=files.ssl_cert)
        return _configured(found)

    return grpc.dynamic_ssl_server_credentials(
        _configured(known), fetch, require_client_authentication=bool(files.ssl_ca)
    )


def _configured(pem: Pem) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration([(pem.key or b"", pem.cert or b"")], pem.ca)


def check_caller(auth: Mapping[str, Iterable[bytes]], allowed: Collection[str]) -> None:
    """`auth`: a call's `auth_context()`. Who comes by the unix socket has none: the socket's
    directory lets them in. Raises Forbidden."""
    if b"ssl" not in set(auth.get("transport_security_type", ())):
        return
    names = {name.decode(errors="replace") for kind in _NAMES for name in auth.get(kind, ())}
    if names.isdisjoint(allowed):
        raise Forbidden(
            f"a certificate of {', '.join(sorted(names)) or 'nobody'} may not call this Pump",
            hint="cert-allowed-cn names who may",
        )
