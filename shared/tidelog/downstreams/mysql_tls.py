"""TLS to a MySQL-speaking server: never less than what the URL asks for."""

from __future__ import annotations

import ssl

from tidelog.downstreams.target import Tls
from tidelog.errors import ConfigError


def context(tls: Tls) -> ssl.SSLContext:
    """Reads the files anew each time, so that renewed ones need no restart. Raises ConfigError."""
    try:
        found = ssl.create_default_context(cafile=tls.ca or None)
        found.minimum_version = ssl.TLSVersion.TLSv1_2
        found.check_hostname = tls.verify == "full"
        if tls.verify == "none":
            found.verify_mode = ssl.CERT_NONE
        if tls.cert:
            found.load_cert_chain(tls.cert, tls.key or None)
    except (OSError, ssl.SSLError) as error:
        names = ", ".join(name for name in (tls.ca, tls.cert, tls.key) if name)
        raise ConfigError(
            f"the TLS files {names} of the URL can't be used: {error}",
            hint="PEM files: tls_ca the authority's certificate, tls_cert and tls_key our own",
        ) from error
    return found
