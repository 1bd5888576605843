"""A service's configuration: TOML file < environment < flags (design section 3).

    class PumpConfig(ServiceConfig, frozen=True, kw_only=True, rename="kebab"):
        gc_days: int = 7

    config = load(PumpConfig, "pump", sys.argv[1:], os.environ)

`gc-days` is then a key of the file named by `--config` (or TIDELOG_CONFIG), the variable
TIDELOG_PUMP_GC_DAYS (before TIDELOG_GC_DAYS), and the flag `--gc-days`. A nested struct is a table
of the file; its keys are joined by `-` elsewhere; in the file `_` may stand for `-`. An empty
variable counts as not set. `unused` names keys of the original that have no meaning here.
"""

from __future__ import annotations

import difflib
import re
import textwrap
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar, get_args, get_origin

import msgspec

from tidelog.config_help import field_helps
from tidelog.errors import ConfigError, TidelogError
from tidelog.ranges import Range, bare, check, range_of, within
from tidelog.security.access import NatsAccess
from tidelog.subjects import is_cluster_name
from tidelog.unreadable import NOT_READABLE

SECTIONS = ("registry", "pump", "drainer", "applier", "backfill", "cli", "test")
RESERVED = ("config", "failpoints")
"""TIDELOG_… variables that are no keys."""
OF_COMMANDS = (
    *("verify_source", "verify_downstream", "doctor_source", "doctor_downstream"),
    *("backfill_source", "backfill_downstream", "ssl_ca", "ssl_cert", "ssl_key"),
)
"""TIDELOG_… variables that only commands read: who exports them for those may start a service all
the same."""


class Secret:
    """A text that no log, status page or traceback shows. A key `x` of this type may be given as
    `x-file`, the path of a file that holds it."""

    __slots__ = ("_text",)

    def __init__(self, text: str = "") -> None:
        self._text = text

    def reveal(self) -> str:
        return self._text

    def __bool__(self) -> bool:
        return bool(self._text)

    def __repr__(self) -> str:
        return "***" if self._text else "''"


class ServiceConfig(NatsAccess, frozen=True, kw_only=True, rename="kebab"):
    """What every service has; each adds its own keys in its `config.py`."""

    unused: ClassVar[Mapping[str, str]] = {}
    """Keys (or whole tables, `a.b`) of the original without a meaning here -> what to do."""

    node_id: str = ""
    """Its name in the cluster; empty = one made of its kind and feed, a Pump draws one."""
    cluster: str = "default"
    """The topology it belongs to: in subjects and the names of buckets; letters, digits, - and _.
    """
    cluster_id: Annotated[int, Range(0, (1 << 64) - 1)] = 0
    """The upstream TiDB cluster's id. A Pump takes binlogs that carry just this one (0: those of
    writers that say 0), and its directory keeps it; the registry takes nodes of any under 0."""
    nats_url: str = "nats://127.0.0.1:4222"
    """The NATS server, or several of one cluster, separated by commas."""
    data_dir: str = ""
    """A directory of its own, on a local disk; empty = data/SERVICE."""
    http_addr: str = "127.0.0.1:0"
    """HOST:PORT of /status, /metrics, /livez, /readyz and the nodes; port 0 = a free one."""
    admin_token: Secret = Secret()
    """Who sends it may change states over HTTP; nobody may while there is none."""
    log_format: str = "auto"
    """json, text, or auto: text on a terminal, else json."""
    log_level: str = "info"
    """debug, info, warning, error."""

    def __post_init__(self) -> None:
        """Raises ConfigError. Who has more to check does so after this."""
        check(self)
        if not is_cluster_name(self.cluster):
            raise ConfigError(
                f"cluster {self.cluster!r} is no name", hint="letters, digits, - and _ only"
            )

    @property
    def storage_dir(self) -> str:
        """The directory behind the Disk port; in `data_dir` the process says where it is."""
        return self.data_dir


class HelpRequested(TidelogError):
    """`--help` was given: the message is the text to print."""


C = TypeVar("C", bound=msgspec.Struct)
Keys = dict[str, "Key"]


class Key(msgspec.Struct, frozen=True):
    """One settable key: the path of struct field names to it, the tables and the name it has in a
    file, its type and default (msgspec.NODEFAULT: it must be set). `from_file`: its value is the
    path of a file that holds the secret. `help`: what it is for, a line."""

    path: tuple[str, ...]
    table: tuple[str, ...]
    type: Any
    default: Any
    from_file: bool = False
    range: Range | None = None
    owner: type[msgspec.Struct] = msgspec.Struct

    @property
    def help(self) -> str:
        return field_helps(self.owner).get(self.path[-1], "")

    @property
    def type_text(self) -> str:
        """Its type, for people: `int`, `none|gzip`."""
        return _type_name(self.type)


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def keys_of(
    cls: type[msgspec.Struct], path: tuple[str, ...] = (), table: tuple[str, ...] = ()
) -> Keys:
    """Every key by the name its flag has, those of nested structs after their table's name."""
    found: Keys = {}
    for field in msgspec.structs.fields(cls):
        here, there = (*path, field.name), (*table, field.encode_name)
        if _is_struct(field.type):
            found |= keys_of(field.type, here, there)
            continue
        default = field.default
        if field.default_factory is not msgspec.NODEFAULT:
            default = field.default_factory()
        kind, allowed = bare(field.type), range_of(field.type)
        found["-".join(there)] = Key(here, there, kind, default, range=allowed, owner=cls)
        if field.type is Secret:
            pointed = (*table, f"{field.encode_name}-file")
            found["-".join(pointed)] = Key(here, pointed, Secret, msgspec.NODEFAULT, True)
    return found


def load(cls: type[C], section: str, argv: Sequence[str], environ: Mapping[str, str]) -> C:
    """The configuration. Raises ConfigError (unknown key, wrong type), HelpRequested."""
    keys = keys_of(cls)
    unused: Mapping[str, str] = getattr(cls, "unused", {})
    flags = dict(_flags(keys, section, argv, cls))
    values: dict[tuple[str, ...], Any] = {}
    path = flags.pop("config", environ.get("TIDELOG_CONFIG", ""))
    if path:
        for name, raw in _file(keys, path, unused):
            values[keys[name].path] = _convert(keys[name], f"{name} in {path}", raw, strict=True)
    for name, variable, text in _environment(keys, section, environ, unused):
        values[keys[name].path] = _convert(keys[name], variable, _from_text(keys[name], text))
    for name, text in flags.items():
        values[keys[name].path] = _convert(keys[name], f"--{name}", _from_text(keys[name], text))
    return _build(cls, (), values)


def _file(keys: Keys, path: str, unused: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    try:
        document = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, RecursionError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"the configuration file {path} can't be read: {error}") from error
    tables = {key.table[:n] for key in keys.values() for n in range(1, len(key.table))}
    by_table = {key.table: name for name, key in keys.items()}

    def walk(content: dict[str, Any], at: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
        for name, value in content.items():
            here = (*at, name.replace("_", "-"))
            if here in tables and isinstance(value, dict):
                yield from walk(value, here)
            elif here in by_table:
                yield by_table[here], value
            else:
                dotted, known = ".".join(here), [".".join(t) for t in by_table]
                raise _unknown(dotted, known, f"in {path}", unused.get(dotted, ""))

    yield from walk(document, ())


def _environment(
    keys: Keys, section: str, environ: Mapping[str, str], unused: Mapping[str, str]
) -> Iterator[tuple[str, str, str]]:
    """Known variables, general ones first. Variables of other services and of commands are
    theirs."""
    by_variable = {name.upper().replace("-", "_"): name for name in keys}
    general: list[tuple[str, str, str]] = []
    own: list[tuple[str, str, str]] = []
    for variable in sorted(environ):
        rest = variable.removeprefix("TIDELOG_")
        if rest == variable or not environ[variable] or rest.lower() in (*RESERVED, *OF_COMMANDS):
            continue
        mine = rest.removeprefix(section.upper() + "_")
        if rest in by_variable:
            general.append((by_variable[rest], variable, environ[variable]))
        elif mine != rest and mine in by_variable:
            own.append((by_variable[mine], variable, environ[variable]))
        elif mine != rest or not rest.lower().startswith(tuple(f"{s}_" for s in SECTIONS)):
            known = [variable.removesuffix(mine) + name for name in by_variable]
            hint = _plain(unused).get(mine.lower().replace("_", "-"), "")
            raise _unknown(variable, known, "as a variable", hint)
    yield from general
    yield from own


def _flags(
    keys: Keys, section: str, argv: Sequence[str], cls: type[msgspec.Struct]
) -> Iterator[tuple[str, str]]:
    rest = list(argv)
    while rest:
        flag, equals, text = rest.pop(0).partition("=")
        if flag in ("--help", "-h"):
            raise HelpRequested(usage(cls, section))
        name = flag.removeprefix("--")
        if not flag.startswith("--") or (name != "config" and name not in keys):
            hint = _plain(getattr(cls, "unused", {})).get(name, "")
            raise _unknown(flag, ["--config", *(f"--{known}" for known in keys)], "as a flag", hint)
        if not equals:
            if name in keys and keys[name].type is bool:
                text = rest.pop(0) if rest and rest[0] in ("true", "false") else "true"
            elif rest:
                text = rest.pop(0)
            else:
                raise ConfigError(f"{flag} needs a value")
        yield name, text


def _plain(unused: Mapping[str, str]) -> dict[str, str]:
    """By the names that flags have."""
    return {name.replace(".", "-"): hint for name, hint in unused.items()}


def _unknown(name: str, known: Sequence[str], where: str, instead: str) -> ConfigError:
    """`instead`: what to do, if the original has the key."""
    if instead:
        return ConfigError(
            f"key {name} {where} is the original's, without a meaning here", hint=instead
        )
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.0)
    hint = f"the nearest known one is {near[0]}" if near else ""
    return ConfigError(f"unknown key {name} {where}", hint=hint)


def _from_text(key: Key, text: str) -> Any:
    """A variable's or flag's text as what the type wants: lists by comma, maps by `k=v,k=v`, or
    either as JSON."""
    origin = get_origin(key.type) or key.type
    if origin not in (list, tuple, dict):
        return text
    if text.startswith(("[", "{")):
        try:
            return msgspec.json.decode(text)
        except NOT_READABLE:
            return text
    items = [item.strip() for item in text.split(",") if item.strip()]
    if origin is not dict:
        return items
    return {k.strip(): v.strip() for k, _, v in (item.partition("=") for item in items)}


def _convert(key: Key, where: str, value: Any, *, strict: bool = False) -> Any:
    if key.from_file:
        try:
            value = Path(str(value)).read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{where}: the file {value} can't be read: {error}") from error
    try:
        converted = msgspec.convert(value, type=key.type, strict=strict, dec_hook=_decode)
    except msgspec.ValidationError as error:
        shown = "***" if key.type is Secret else repr(value)
        expected = _type_name(key.type)
        raise ConfigError(f"{where} is {shown}, but {expected} is expected: {error}") from error
    if key.range is not None:
        within(where, converted, key.range)
    return converted


def _decode(kind: type, value: Any) -> Any:
    if kind is Secret and isinstance(value, str):
        return Secret(value)
    raise ValueError(f"a {kind.__name__} is given as text")


def _type_name(kind: Any) -> str:
    args = get_args(kind)
    match get_origin(kind):
        case None:
            return kind.__name__ if isinstance(kind, type) and not _is_struct(kind) else _form(kind)
        case _ if get_origin(kind) is Literal:
            return "|".join(map(str, args))
        case origin if origin is Annotated:
            return _type_name(args[0])
        case origin if origin in (list, tuple):
            return f"list of {_type_name(args[0])}"
        case origin if origin is dict:
            return f"table of {_type_name(args[1])}"
        case _:
            return " or ".join(map(_type_name, args))


def _form(kind: type[msgspec.Struct]) -> str:
    """A struct by its keys: `{db-name, tbl-name}`."""
    return "{" + ", ".join(field.encode_name for field in msgspec.structs.fields(kind)) + "}"


def _build(cls: type[C], at: tuple[str, ...], values: Mapping[tuple[str, ...], Any]) -> C:
    content: dict[str, Any] = {}
    for field in msgspec.structs.fields(cls):
        here = (*at, field.name)
        if _is_struct(field.type):
            content[field.name] = _build(field.type, here, values)
        elif here in values:
            content[field.name] = values[here]
        elif field.required:
            raise ConfigError(f"{field.encode_name} is not set", hint=f"--{field.encode_name}")
    try:
        return cls(**content)
    except (TypeError, ValueError) as error:
        raise ConfigError(str(error)) from error


def redacted(config: msgspec.Struct) -> dict[str, Any]:
    """The configuration as `/status` shows it: secrets as stars, no password within a URL."""
    shown: dict[str, Any] = {}
    for field in msgspec.structs.fields(type(config)):
        value = getattr(config, field.name)
        if isinstance(value, msgspec.Struct):
            shown[field.encode_name] = redacted(value)
        elif isinstance(value, Secret):
            shown[field.encode_name] = repr(value)
        elif isinstance(value, str):
            shown[field.encode_name] = redacted_url(value)
        else:
            shown[field.encode_name] = value
    return shown


_NEXT_URL = re.compile(r",(?=[A-Za-z][\w+.-]*://)")
_SECRET_OPTION = re.compile(
    r"([?&](?:[^=&]*[-_])?(?:password|passwd|pwd|token|secret)=)[^&]*", re.IGNORECASE
)


def redacted_url(text: str) -> str:
    """`text` with the password (or token) of every URL in it as stars. A password that should have
    been escaped, with a slash or an @ in it, takes too much along rather than too little."""
    parts = []
    for url in _NEXT_URL.split(text):
        scheme, found, rest = url.partition("://")
        user, at, place = rest.rpartition("@")
        if found and at and not rest.startswith("/"):
            name, colon, _ = user.partition(":")
            rest = f"{name}:***@{place}" if colon else f"***@{place}"
        parts.append(_SECRET_OPTION.sub(r"\1***", f"{scheme}{found}{rest}"))
    return ",".join(parts)


def usage(cls: type[msgspec.Struct], section: str) -> str:
    """The text of `--help`: each key, its type, its default, what it is for."""
    lines = [f"python -m tidelog_{section} [--config FILE] [--KEY VALUE ...]", ""]
    for name, key in keys_of(cls).items():
        if not key.from_file:
            default = "" if key.default is msgspec.NODEFAULT else f" [{key.default!r}]"
            allowed = "" if key.range is None else f", {key.range}"
            lines.append(f"  --{name:28} {key.type_text}{allowed}{default}")
            lines += textwrap.wrap(key.help, 92, initial_indent=_INDENT, subsequent_indent=_INDENT)
    return "\n".join(lines)


_INDENT = " " * 8
