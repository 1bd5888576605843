"""How the upstream's TLS is told to a command: the table `[upstream.security]`, as options."""

from __future__ import annotations

from typing import Annotated

import typer

from tidelog.security.tls import TlsFiles
from tidelog_cli.commands.bulk_options import place

Ca = Annotated[
    str, typer.Option("--upstream-ca", help="PEM file: who vouches for the upstream's servers.")
]
Cert = Annotated[str, typer.Option("--upstream-cert", help="PEM file: our certificate for them.")]
Key = Annotated[str, typer.Option("--upstream-key", help="PEM file: its key.")]


def tls(ca: str, cert: str, key: str) -> TlsFiles:
    """Raises ConfigError."""
    return TlsFiles(ssl_ca=place(ca), ssl_cert=place(cert), ssl_key=place(key))
