"""`pd-urls`: where PD's servers are. Who only reads a configuration needs no protobuf."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit

from tidelog.errors import ConfigError

_URLS_HINT = "http://HOST:2379, commas between"


def addresses(urls: str) -> tuple[str, ...]:
    """HOST:PORT of each of `pd-urls`, `http://HOST:PORT,…`. Raises ConfigError."""
    return tuple(parts.netloc for parts in _parsed(urls))


def is_tls(urls: str) -> bool:
    """Whether `pd-urls` say https. Raises ConfigError where some do and some don't."""
    schemes = {parts.scheme for parts in _parsed(urls)}
    if len(schemes) > 1:
        raise ConfigError("pd-urls mix http and https", hint="a cluster has TLS, or it has none")
    return schemes == {"https"}


def _parsed(urls: str) -> list[SplitResult]:
    found = []
    for url in filter(None, (part.strip() for part in urls.split(","))):
        parts = _address(url if "://" in url else f"http://{url}")
        if parts is None:
            raise ConfigError(f"pd-urls: {url!r} is no address of a PD", hint=_URLS_HINT)
        found.append(parts)
    if not found:
        raise ConfigError("pd-urls names no PD", hint=_URLS_HINT)
    return found


def _address(url: str) -> SplitResult | None:
    """None if it is none."""
    try:
        parts = urlsplit(url)
        whole = parts.scheme in ("http", "https") and parts.hostname and parts.port
    except ValueError:  # a port that is no number, a bracket that is left open
        return None
    return parts if whole else None
