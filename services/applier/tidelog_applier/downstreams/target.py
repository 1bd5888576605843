"""A downstream's URL, in SQLAlchemy's form."""

from __future__ import annotations

from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from tidelog.errors import ConfigError

KEEP_DROPPED_S = 86_400
"""How long a dropped or truncated table's rows are kept, so that RECOVER and FLASHBACK TABLE find
them. In upstream time; TiDB's own limit is its GC life time, 10 minutes unless raised."""

_SCHEMES = {
    "sqlite": "sqlite",
    "mysql": "mysql",
    "mariadb": "mysql",
    "tidb": "mysql",
    "mysql+aiomysql": "mysql",
}
_OPTIONS = {
    "sqlite": {"keep_dropped_s"},
    "mysql": {"keep_dropped_s", "unix_socket", "connect_timeout"},
}
_HINT = "sqlite:////absolute/path or mysql://USER:PASSWORD@HOST:PORT/"


class Target(msgspec.Struct, frozen=True):
    """Where to connect. `repr` and `shown` never hold the password."""

    scheme: str
    host: str = "127.0.0.1"
    port: int = 3306
    user: str = "root"
    password: str = ""
    path: str = ""
    unix_socket: str = ""
    connect_timeout_s: int = 10
    keep_dropped_s: int = KEEP_DROPPED_S

    @classmethod
    def parse(cls, url: str) -> Target:
        """Raises ConfigError, whose text does not repeat the URL: it may hold a password."""
        scheme, found, _ = url.partition("://")
        kind = _SCHEMES.get(scheme)
        if not found or kind is None:
            raise ConfigError("the downstream URL has no known scheme", hint=_HINT)
        try:
            parts = urlsplit(url)
            port = parts.port or 3306
            options = dict(parse_qsl(parts.query, strict_parsing=bool(parts.query)))
            keep = int(options.get("keep_dropped_s", KEEP_DROPPED_S))
            timeout = int(options.get("connect_timeout", 10))
        except ValueError as error:
            raise ConfigError("the downstream URL can't be read", hint=_HINT) from error
        for name in options:
            if name not in _OPTIONS[kind]:
                known = ", ".join(sorted(_OPTIONS[kind]))
                raise ConfigError(
                    f"the downstream URL has no option {name}", hint=f"it has {known}"
                )
        if kind == "sqlite":
            path = unquote(parts.path)[1:]
            if parts.netloc or not path.startswith("/"):
                raise ConfigError("the SQLite URL needs an absolute path", hint=_HINT)
            return cls("sqlite", path=path, keep_dropped_s=keep)
        return cls(
            "mysql",
            host=parts.hostname or "127.0.0.1",
            port=port,
            user=unquote(parts.username or "root"),
            password=unquote(parts.password or ""),
            unix_socket=options.get("unix_socket", ""),
            connect_timeout_s=timeout,
            keep_dropped_s=keep,
        )

    @property
    def shown(self) -> str:
        """For logs and errors."""
        if self.scheme == "sqlite":
            return f"sqlite:///{self.path}"
        where = self.unix_socket or f"{self.host}:{self.port}"
        return f"mysql://{self.user}@{where}"

    def __repr__(self) -> str:
        return f"Target({self.shown})"
