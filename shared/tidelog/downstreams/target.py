"""A database's URL, in SQLAlchemy's form. Nothing is connected or opened here."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

import msgspec

from tidelog.errors import ConfigError

KEEP_DROPPED_S = 86_400
"""How long a dropped or truncated table's rows are kept, so that RECOVER and FLASHBACK TABLE find
them. In upstream time; TiDB's own limit is its GC life time, 10 minutes unless raised."""
SEGMENT_BYTES = 512 << 20

_SCHEMES = {
    "sqlite": "sqlite",
    "mysql": "mysql",
    "mariadb": "mysql",
    "tidb": "mysql",
    "mysql+aiomysql": "mysql",
    "file": "file",
    "blackhole": "blackhole",
}
_TLS = ("tls", "tls_verify", "tls_ca", "tls_cert", "tls_key")
_OPTIONS: dict[str, tuple[str, ...]] = {
    "sqlite": ("keep_dropped_s",),
    "mysql": ("keep_dropped_s", "unix_socket", "connect_timeout", "password_file", *_TLS),
    "file": ("retention_days", "segment_bytes"),
    "blackhole": (),
}
HINT = "sqlite:////absolute/path, mysql://USER@HOST:PORT/, file:///absolute/directory or blackhole:"
_ESCAPED = "/, @, : and % within user or password are written %2F, %40, %3A and %25"


class Tls(msgspec.Struct, frozen=True):
    """`verify`: full (who signed the certificate, and for which host), ca (who signed it), none.
    Files are PEM; an empty `ca` stands for what the machine trusts."""

    verify: str = "full"
    ca: str = ""
    cert: str = ""
    key: str = ""


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
    tls: Tls | None = None
    retention_days: int = 0
    """Of files, by their age; 0 = they stay."""
    segment_bytes: int = SEGMENT_BYTES

    @classmethod
    def parse(cls, url: str, password: str = "", *, what: str = "downstream") -> Target:
        """`password`: of the account, if the URL has none. `what` it is, for errors. Raises
        ConfigError, whose text does not repeat the URL: it may hold a password."""
        if not url:
            raise ConfigError(f"{what} is not set", hint=HINT)
        scheme, found, _ = url.partition(":")
        kind = _SCHEMES.get(scheme.lower())
        if not found or kind is None:
            near = _nearest(scheme, _SCHEMES) if found else ""
            raise ConfigError(
                f"the {what} URL has no known scheme",
                hint=f"{f'{near}:// is the nearest; ' if near else ''}{HINT}",
            )
        try:
            parts = urlsplit(url)
            port = parts.port or 3306
            options = _options(what, kind, parts.query)
        except ValueError as error:
            raise ConfigError(f"the {what} URL can't be read", hint=_ESCAPED) from error
        if kind == "mysql":
            return _mysql(what, parts, port, options, password)
        keep = _number(what, options, "keep_dropped_s", KEEP_DROPPED_S)
        if kind == "sqlite":
            return cls(kind, path=_path(parts, unquote(parts.path)[1:]), keep_dropped_s=keep)
        if kind == "file":
            return cls(
                kind,
                path=_path(parts, unquote(parts.path)),
                retention_days=_number(what, options, "retention_days", 0),
                segment_bytes=_number(what, options, "segment_bytes", SEGMENT_BYTES, least=1),
            )
        return cls(kind)

    @property
    def shown(self) -> str:
        """For logs and errors."""
        if self.scheme == "sqlite":
            return f"sqlite:///{self.path}"
        if self.scheme in ("file", "blackhole"):
            return f"file://{self.path}" if self.path else "blackhole:"
        where = self.unix_socket or f"{self.host}:{self.port}"
        return f"mysql://{self.user}@{where}"

    def __repr__(self) -> str:
        return f"Target({self.shown})"


def _mysql(
    what: str, parts: SplitResult, port: int, options: dict[str, str], password: str
) -> Target:
    if parts.path.strip("/"):
        raise ConfigError(
            f"the {what} URL names a database, or its password has a / in it",
            hint=f"one feed fills many databases, so it names none; {_ESCAPED}",
        )
    ways = [unquote(parts.password or ""), password, _file(options.get("password_file", ""))]
    given = [text for text in ways if text]
    if len(given) > 1:
        raise ConfigError(
            f"the {what}'s password is given more than once",
            hint="in the URL, apart from it, or as the URL's password_file: keep one",
        )
    target = Target(
        "mysql",
        host=parts.hostname or "127.0.0.1",
        port=port,
        user=unquote(parts.username or "root"),
        password=given[0] if given else "",
        unix_socket=options.get("unix_socket", ""),
        connect_timeout_s=_number(what, options, "connect_timeout", 10, least=1),
        keep_dropped_s=_number(what, options, "keep_dropped_s", KEEP_DROPPED_S),
        tls=_tls(what, options),
    )
    if target.tls is not None and target.unix_socket:
        raise ConfigError(
            f"the {what} URL has a unix_socket and TLS",
            hint="leave one out: what goes over a socket does not leave the machine",
        )
    return target


def _options(what: str, kind: str, query: str) -> dict[str, str]:
    """By their names; `-` may stand for `_`. Raises ConfigError, ValueError."""
    options: dict[str, str] = {}
    for given, value in parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query)):
        name = given.replace("-", "_")
        if name not in _OPTIONS[kind]:
            near = _nearest(name, _OPTIONS[kind])
            raise ConfigError(
                f"the {what} URL has no option {given} for {kind}",
                hint=f"the nearest known one is {near}" if near else "it has none",
            )
        options[name] = value
    return options


def _tls(what: str, options: dict[str, str]) -> Tls | None:
    """Any option of TLS but `tls=off` turns it on."""
    given = {name: value for name, value in options.items() if name in _TLS}
    wanted = given.pop("tls", "on" if given else "off")
    tls = Tls(
        given.get("tls_verify", "full"),
        given.get("tls_ca", ""),
        given.get("tls_cert", ""),
        given.get("tls_key", ""),
    )
    if wanted not in ("on", "off"):
        raise ConfigError(f"tls of the {what} URL is {wanted}", hint="it is on or off")
    if tls.verify not in ("full", "ca", "none"):
        hint = "full (the default), ca (any host name), or none (anybody's certificate)"
        raise ConfigError(f"tls_verify of the {what} URL is {tls.verify}", hint=hint)
    if tls.key and not tls.cert:
        raise ConfigError(
            f"the {what} URL has a tls_key without its certificate", hint="add tls_cert=FILE"
        )
    return tls if wanted == "on" else None


def _path(parts: SplitResult, path: str) -> str:
    if parts.netloc or not path.startswith("/"):
        hint = "three slashes and the path: sqlite:////data/copy.db, file:///data/files"
        raise ConfigError(f"the {parts.scheme} URL needs an absolute path", hint=hint)
    return path


def _file(path: str) -> str:
    """The password in a file, without the line's end."""
    if not path:
        return ""
    try:
        found = Path(path).read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"the password_file {path} can't be read: {error}",
            hint="it holds the password alone, readable for the user of this process",
        ) from error
    if not found:
        raise ConfigError(f"the password_file {path} is empty", hint="it holds the password alone")
    return found


def _number(what: str, options: dict[str, str], name: str, default: int, *, least: int = 0) -> int:
    text = options.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit()) or int(text) < least:
        hint = f"a whole number of at least {least}"
        raise ConfigError(f"{name} of the {what} URL is {text!r}", hint=hint)
    return int(text)


def _nearest(name: str, known: Iterable[str]) -> str:
    return next(iter(difflib.get_close_matches(name, known, n=1, cutoff=0.0)), "")
