"""Which source a URL or a path names."""

from __future__ import annotations

from tidelog_backfill.snapshot.dump_source import DumpSource
from tidelog_backfill.snapshot.mysql_source import MysqlSource
from tidelog_backfill.snapshot.source import Source


def open_source(url: str, password: str) -> Source:
    """A server's URL, else dump files. Nothing is connected yet. Raises ConfigError, BadInput."""
    scheme, is_url, _ = url.partition("://")
    if is_url and scheme.lower() in ("mysql", "mariadb", "tidb"):
        return MysqlSource(url, password)
    return DumpSource(url)
