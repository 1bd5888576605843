"""The URL of what is compared. Pure."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

import msgspec

from tidelog.downstreams.target import Target
from tidelog.errors import ConfigError

_HINT = "mysql://USER:PASSWORD@HOST:PORT/, sqlite:////absolute/path or dump:///absolute/path"
_DATABASES = frozenset(("mysql", "mariadb", "tidb", "mysql+aiomysql", "sqlite"))


class Place(msgspec.Struct, frozen=True):
    """`scheme`: mysql, sqlite or dump (of `python -m tidelog.workload --dump`). `target` is of the
    first, `path` of the others."""

    scheme: str
    path: str = ""
    target: Target = Target("mysql")

    @classmethod
    def parse(cls, url: str, what: str) -> Place:
        """`what`: source or downstream. Raises ConfigError, whose text does not repeat the URL."""
        scheme = url.partition(":")[0].lower()
        if scheme == "dump":
            parts = urlsplit(url)
            path = unquote(parts.path)
            if parts.netloc or parts.query or not path.startswith("/"):
                raise ConfigError(f"the {what} URL is no dump's", hint=_HINT)
            return cls("dump", path)
        if scheme not in _DATABASES:
            raise ConfigError(f"the {what} URL is none that can be compared", hint=_HINT)
        target = Target.parse(url, what=what)
        return cls(target.scheme, target.path, target)

    @property
    def shown(self) -> str:
        return f"dump://{self.path}" if self.scheme == "dump" else self.target.shown

    def __repr__(self) -> str:
        return f"Place({self.shown})"
