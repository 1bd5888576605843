"""What nats-py needs of a NatsAccess, and what a server's refusal means."""

from __future__ import annotations

import ssl
from typing import Any

from tidelog.errors import ConfigError, TidelogError, Unauthenticated, Untrusted
from tidelog.real.nkey import public_key_of
from tidelog.real.pem import client_context, tls_reason
from tidelog.security.access import NatsAccess, inbox_of
from tidelog.security.tls import TlsFiles


def inbox_prefix(access: NatsAccess) -> str:
    """Where answers come, without a dot at its end. Each key has inboxes that no other may listen
    to; without a key they are everybody's. Raises ConfigError."""
    return inbox_of(public_key_of(access.nats_nkey_file)) if access.nats_nkey_file else "_INBOX"


def connect_options(access: NatsAccess) -> dict[str, Any]:
    """Of `nats.connect`. The files are read now. Raises ConfigError."""
    options: dict[str, Any] = {}
    if access.nats_nkey_file:
        options["nkeys_seed"] = access.nats_nkey_file
    if access.nats_ca or access.nats_cert or access.nats_key:
        options["tls"] = tls_context(access)
    return options


def tls_context(access: NatsAccess) -> ssl.SSLContext:
    """Raises ConfigError, which names the file."""
    if bool(access.nats_cert) != bool(access.nats_key):
        raise ConfigError("nats-cert and nats-key go together", hint="set both, or none")
    files = TlsFiles(ssl_ca=access.nats_ca, ssl_cert=access.nats_cert, ssl_key=access.nats_key)
    return client_context(files, named="nats")


def refusal(error: BaseException, access: NatsAccess) -> TidelogError | None:
    """What `error` of a connection means if it would be the same again; else None."""
    if isinstance(error, TidelogError):
        return error
    if isinstance(error, ssl.SSLCertVerificationError):
        return Untrusted(
            f"the NATS server's certificate is refused: {error.verify_message}",
            hint="nats-ca names who vouches for it, and it must name the host of nats-url",
        )
    if isinstance(error, ssl.SSLError):
        return Untrusted(
            f"no TLS with the NATS server: {tls_reason(error)}",
            hint="check nats-ca, nats-cert and nats-key, and the server's tls block",
        )
    if "authorization violation" in str(error).lower():
        return _unknown_key(access)
    return None


def _unknown_key(access: NatsAccess) -> TidelogError:
    if not access.nats_nkey_file:
        return Unauthenticated(
            "the NATS server wants to know who asks",
            hint="nats-nkey-file (--nats-nkey-file) names the key of an identity",
        )
    return Unauthenticated(
        f"the NATS server does not know the key in {access.nats_nkey_file}",
        hint="`tidelog keys DIR` writes DIR/nats/auth.conf: the server has to read the newest one",
    )
