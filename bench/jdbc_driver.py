"""The JDBC driver that Spark's own writer needs: nothing of ours does, so it is only here."""

from __future__ import annotations

import sys
import urllib.request
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from bench.stage import OUT

CACHE = OUT / "cache"
TIMEOUT_S = 30.0


class Jar(NamedTuple):
    url: str
    sha256: str

    @property
    def name(self) -> str:
        return self.url.rpartition("/")[2]


MARIADB = Jar(
    "https://repo1.maven.org/maven2/org/mariadb/jdbc/mariadb-java-client/3.5.6/"
    "mariadb-java-client-3.5.6.jar",
    "a129703efd7b0f334564d46753de999f09b3a361489a2eb647e6020390981cc9",
)


def fetched(jar: Jar = MARIADB, cache: Path = CACHE) -> Path | None:
    """Downloaded once; None, and a line that says so, if its place can't be reached. Raises
    RuntimeError for a file that is not the one we know."""
    path = cache / jar.name
    if not path.exists():
        try:
            with urllib.request.urlopen(jar.url, timeout=TIMEOUT_S) as answer:
                data = answer.read()
        except OSError as error:
            sys.stderr.write(f"Spark's JDBC writer is left out: {jar.url}: {error}\n")
            return None
        _check(jar, data)
        cache.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    _check(jar, path.read_bytes())
    return path


def _check(jar: Jar, data: bytes) -> None:
    if sha256(data).hexdigest() != jar.sha256:
        raise RuntimeError(f"{jar.name} is not the file that it was: its SHA-256 differs")
