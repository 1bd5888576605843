"""A gRPC channel to somebody else's service, in plain text or with TLS. grpcio is optional."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidelog.errors import ConfigError
from tidelog.real.pem import read_pem
from tidelog.security.tls import TlsFiles

if TYPE_CHECKING:
    import grpc.aio

RECONNECT = [
    # gRPC itself would wait up to two minutes before it connects again.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1000),
    ("grpc.max_reconnect_backoff_ms", 1000),
]
UNBOUNDED = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]


def require_grpc() -> None:
    """Raises ConfigError if grpcio is not installed."""
    try:
        import grpc.aio  # noqa: F401
    except ImportError:
        raise ConfigError("grpcio is not installed", hint="pip install grpcio") from None


def open_channel(
    address: str, tls: TlsFiles, options: Sequence[tuple[str, object]]
) -> grpc.aio.Channel:
    """With TLS, if it has files. Raises ConfigError."""
    import grpc.aio

    if not tls.on:
        return grpc.aio.insecure_channel(address, options=options)
    pem = read_pem(tls)
    if tls.cert_allowed_cn:
        options = [*options, ("grpc.ssl_target_name_override", tls.cert_allowed_cn[0])]
    credentials = grpc.ssl_channel_credentials(pem.ca, pem.key, pem.cert)
    return grpc.aio.secure_channel(address, credentials, options=options)
