"""`tidelog config import`: the original's pump.toml or drainer.toml as configurations of ours."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, urlencode

from tidelog.config import Secret
from tidelog.errors import ConfigError
from tidelog_cli.config_import import toml_lines
from tidelog_cli.config_import.rules import APPLIER, DRAINER, DRAINER_RULES, PUMP, PUMP_RULES, Rule
from tidelog_cli.config_import.toml_lines import Entry
from tidelog_cli.config_import.writing import Written, text

PASSWORD = "downstream-password"  # noqa: S105 (the name of a file)
CHECKPOINT_TABLE = "tidb_binlog.tidelog_checkpoint"
MYSQL, FILES, KAFKA = ("mysql", "tidb"), ("file", "pb"), "kafka"
OF_A_TIDB = (
    "# Set cluster-id to the TiDB cluster's id, and nats-url.",
    '# The registry has oracle = "follow", too.',
)
FEED_NOTES = (
    '# Set ddl-history to a TiDB\'s status address, "http://HOST:10080", and nats-url.',
    "# Before the first start: tidelog feed create main (docs/guide/migration.md has more).",
)
NO_APPLIER = (
    "the original wrote to Kafka: here applications subscribe to the feed itself, so that no"
    " Applier is needed (docs/guide/subscriber.md)"
)
_OF_THE_DRAINER = ("syncer.load-schema-snapshot", "syncer.case-sensitive")


class Imported(NamedTuple):
    """`files`: contents by name. `secrets`: files that nobody else may read. `notices`: what is
    left to do."""

    files: Mapping[str, str]
    secrets: Mapping[str, Secret]
    notices: Sequence[str]


def import_file(path: Path, secrets_at: Path) -> Imported:
    """`secrets_at`: the directory in which the secrets will be. Raises ConfigError, which names the
    file, and the line where there is one."""
    entries = toml_lines.read(path)
    of_drainer = any(entry.key.startswith("syncer.") for entry in entries)
    rules = DRAINER_RULES if of_drainer else PUMP_RULES
    for entry in entries:
        _check(path, entry, rules)
    if not of_drainer:
        oracle = Written("", 0, "oracle", "follow", "a TiDB has its own")
        pump = text(path, [oracle, *_written(entries, rules, PUMP)], before=OF_A_TIDB)
        return Imported({"pump.toml": pump}, {}, ())
    return _drainer(path, entries, secrets_at)


def _check(path: Path, entry: Entry, rules: Mapping[str, Rule]) -> None:
    where = f"{path}:{entry.line}"
    rule = rules.get(entry.key)
    if rule is None:
        near = difflib.get_close_matches(entry.key, rules, n=1, cutoff=0.0)
        raise ConfigError(
            f"{where}: {entry.key} is no key of the original", hint=f"{near[0]} is the nearest"
        )
    if type(entry.value) not in rule.takes:
        wanted = " or ".join(kind.__name__ for kind in rule.takes)
        found = type(entry.value).__name__
        raise ConfigError(f"{where}: {entry.key} is a {found}", hint=f"it takes a {wanted}")


def _home(entry: Entry, rule: Rule) -> list[str]:
    """The services in whose file a key is told of."""
    if rule.to:
        return [place.partition(":")[0] for place in rule.to]
    about_writing = entry.key.startswith("syncer.") and entry.key not in _OF_THE_DRAINER
    return [APPLIER if about_writing else DRAINER]


def _written(entries: Sequence[Entry], rules: Mapping[str, Rule], service: str) -> list[Written]:
    found = []
    for entry in entries:
        rule = rules[entry.key]
        ours = [to.partition(":")[2] for to in rule.to if to.startswith(f"{service}:")]
        if ours:
            value = rule.convert(entry.value)
            found.append(Written(entry.key, entry.line, ours[0], value, rule.note))
        elif service == PUMP or service in _home(entry, rule):
            found.append(Written(entry.key, entry.line, note=rule.note))
    return found


def _drainer(path: Path, entries: Sequence[Entry], secrets_at: Path) -> Imported:
    by_key = {entry.key: entry for entry in entries}
    drainer = text(path, _written(entries, DRAINER_RULES, DRAINER), before=FEED_NOTES)
    kind = str(by_key["syncer.db-type"].value) if "syncer.db-type" in by_key else "mysql"
    if kind == KAFKA:
        return Imported({"drainer.toml": drainer}, {}, [NO_APPLIER])
    url = _downstream(path, kind, by_key)
    written = [Written("syncer.to", _line(by_key, "syncer.to.host"), "downstream", url)]
    secrets: dict[str, Secret] = {}
    notices = []
    if kind in MYSQL:
        note = "the original's row in its own table stays, for the way back"
        written.append(Written("", 0, "checkpoint-table", CHECKPOINT_TABLE, note))
        password, encrypted = _value(by_key, "password"), _value(by_key, "encrypted-password")
        if password or encrypted:
            place = str(secrets_at / PASSWORD)
            written.append(Written("", 0, "downstream-password-file", place))
            secrets[PASSWORD] = Secret(password)
            if not password:
                notices.append(f"the password is encrypted there: write it into {place}")
    written += _written(entries, DRAINER_RULES, APPLIER)
    return Imported(
        {"drainer.toml": drainer, "applier.toml": text(path, written)}, secrets, notices
    )


def _line(by_key: Mapping[str, Entry], key: str) -> int:
    return by_key[key].line if key in by_key else 0


def _value(by_key: Mapping[str, Entry], key: str) -> str:
    """Of `[syncer.to]`; empty if it is not there."""
    entry = by_key.get(f"syncer.to.{key}")
    return "" if entry is None else str(entry.value)


def _downstream(path: Path, kind: str, by_key: Mapping[str, Entry]) -> str:
    """The URL of what the original wrote to."""

    def of(key: str, default: str = "") -> str:
        return _value(by_key, key) or default

    if kind in FILES:
        directory = Path(of("dir") or _data_dir(by_key)).absolute()
        days = of("retention-time", "0")
        return f"file://{quote(str(directory))}" + (f"?retention_days={days}" * (days != "0"))
    if kind not in MYSQL:
        raise ConfigError(
            f"{path}:{_line(by_key, 'syncer.db-type')}: a downstream {kind!r} is none of ours",
            hint="mysql, tidb, file, pb; of kafka the feed itself takes the place",
        )
    tls = {f"tls_{name}": of(f"security.ssl-{name}") for name in ("ca", "cert", "key")}
    options = urlencode({name: value for name, value in tls.items() if value}, safe="/")
    account = f"{quote(of('user', 'root'), safe='')}@{of('host', '127.0.0.1')}:{of('port', '3306')}"
    return f"mysql://{account}/" + f"?{options}" * bool(options)


def _data_dir(by_key: Mapping[str, Entry]) -> str:
    """Where the original puts its files if it is not told."""
    entry = by_key.get("data-dir")
    return str(entry.value) if entry is not None else "data.drainer"
