"""The URL of what is compared. Pure."""

from __future__ import annotations

from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from tidelog.errors import ConfigError

_HINT = "mysql://USER:PASSWORD@HOST:PORT/, sqlite:////absolute/path or dump:///absolute/path"
_MYSQL = frozenset(("mysql", "mariadb", "tidb", "mysql+aiomysql"))


class Place(msgspec.Struct, frozen=True):
    """`scheme`: mysql, sqlite or dump (of `python -m tidelog.workload --dump`)."""

    scheme: str
    host: str = "127.0.0.1"
    port: int = 3306
    user: str = "root"
    password: str = ""
    unix_socket: str = ""
    path: str = ""

    @classmethod
    def parse(cls, url: str, what: str) -> Place:
        """`what`: source or downstream. Raises ConfigError, whose text does not repeat the URL."""
        try:
            parts = urlsplit(url)
            port = parts.port or 3306
        except ValueError as error:
            raise ConfigError(f"the {what}'s URL can't be read", hint=_HINT) from error
        if parts.scheme in _MYSQL:
            return cls(
                "mysql",
                parts.hostname or "127.0.0.1",
                port,
                unquote(parts.username or "root"),
                unquote(parts.password or ""),
                dict(parse_qsl(parts.query)).get("unix_socket", ""),
            )
        # SQLAlchemy's form has one slash more for SQLite than a path has.
        path = unquote(parts.path).removeprefix("/" if parts.scheme == "sqlite" else "")
        if parts.scheme not in ("sqlite", "dump") or parts.netloc or not path.startswith("/"):
            raise ConfigError(f"the {what}'s URL is none that can be compared", hint=_HINT)
        return cls(parts.scheme, path=path)

    @property
    def shown(self) -> str:
        if self.scheme == "mysql":
            return f"mysql://{self.user}@{self.unix_socket or f'{self.host}:{self.port}'}"
        return f"{self.scheme}://{'/' * (self.scheme == 'sqlite')}{self.path}"

    def __repr__(self) -> str:
        return f"Place({self.shown})"
