"""A server that is polite up to the handshake and does not prove what it should: what stands before
TLS of each protocol, then TLS with whatever context it is given."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import struct
import threading
import warnings
from collections.abc import Iterator

from tests.adapters.security.pki import Pair

SHAKEN_S = 20.0
"""A client that is slow on a busy machine still hears what is wrong; afterwards who says nothing is
left soon."""
INFO = {"server_id": "x", "version": "2.12.3", "max_payload": 1 << 20, "headers": True}
_SSL = 0x800
_CAPABILITIES = 0x200 | 0x8000 | 0x80000 | 0x8 | 0x2 | 0x1 | 0x2000 | 0x10000 | 0x20000


def context(
    pair: Pair, *, ca: str = "", version: ssl.TLSVersion | None = None, ask: bool = False
) -> ssl.SSLContext:
    """`version`: that one and no other. `ask`: nobody without a certificate of `ca`."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(pair.cert, pair.key)
    made.set_alpn_protocols(["h2", "http/1.1"])
    if ask:
        made.load_verify_locations(ca)
        made.verify_mode = ssl.CERT_REQUIRED
    if version is not None:
        only(made, version)
    return made


def only(made: ssl.SSLContext, version: ssl.TLSVersion) -> None:
    """An old one has to be allowed by OpenSSL first."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        made.set_ciphers("ALL:@SECLEVEL=0")
        made.minimum_version = version
        made.maximum_version = version


@contextlib.contextmanager
def serving(protocol: str, tls: ssl.SSLContext | None) -> Iterator[int]:
    """Its port. `tls` None: it goes on in the clear. Threads and blocking sockets: asyncio's TLS
    ends a failed handshake without the alert that tells the other side why."""
    beginning = {"nats": _info, "mysql": _greeting}.get(protocol, _nothing)
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                plain, _ = listener.accept()
            except OSError:
                return
            plain.settimeout(SHAKEN_S)
            with contextlib.suppress(OSError), plain:
                beginning(plain, tls is not None)
                secure = plain if tls is None else tls.wrap_socket(plain, server_side=True)
                with secure:
                    secure.settimeout(1)
                    while data := secure.recv(4096):
                        if protocol == "nats" and b"PING" in data:
                            secure.sendall(b"PONG\r\n")
                        if protocol == "https" and data.endswith(b"\r\n\r\n"):
                            secure.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]")

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def _nothing(_: socket.socket, __: bool) -> None:
    """gRPC and https begin with the handshake."""


def _info(plain: socket.socket, tls: bool) -> None:
    plain.sendall(b"INFO " + json.dumps(INFO | {"tls_required": tls}).encode() + b"\r\n")


def _greeting(plain: socket.socket, tls: bool) -> None:
    """MySQL's first packet, and the client's answer to it, which asks for TLS."""
    can = _CAPABILITIES | (_SSL if tls else 0)
    body = b"\x0a8.0.30\0" + struct.pack("<I", 1) + b"12345678\0"
    body += struct.pack("<HBHHB", can & 0xFFFF, 45, 2, can >> 16, 21) + bytes(10)
    body += b"123456789012\0mysql_native_password\0"
    plain.sendall(struct.pack("<I", len(body))[:3] + b"\0" + body)
    if tls:
        plain.recv(36, socket.MSG_WAITALL)
