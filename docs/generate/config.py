"""docs/reference/config.md: every key of every service."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from docs.generate.markdown import WRITTEN, code, table
from tidelog.config import Key, Secret, ServiceConfig, keys_of
from tidelog_applier.config import ApplierConfig
from tidelog_backfill.config import BackfillConfig
from tidelog_drainer.config import DrainerConfig
from tidelog_pump.config import PumpConfig
from tidelog_registry.config import RegistryConfig

CONFIGS: Mapping[str, type[ServiceConfig]] = {
    "registry": RegistryConfig,
    "pump": PumpConfig,
    "drainer": DrainerConfig,
    "applier": ApplierConfig,
    "backfill": BackfillConfig,
}
HEAD = ("key", "type", "default", "what")
INTRODUCTION = """# Configuration

Each service takes a key from its TOML file (`--config FILE` or `TIDELOG_CONFIG`), from a variable
of the environment, or from a flag; the later wins. A key `a.b` stands in the table `[a]` of the
file. An empty variable counts as not set; one without the service's name (`TIDELOG_NATS_URL`) is
for all services of a machine. Lists are given to variables and flags with commas, tables as
`k=v,k=v`, or both as JSON. What has the type secret may come from a file instead, by the same key
with `-file`. A key that is not known ends the start with exit code 78, and so does a value out of
its range; variables of other services and of commands are left alone. `python -m tidelog_pump
--help` shows the same.
"""
COMMON = """`<SERVICE>` stands for one of REGISTRY, PUMP, DRAINER, APPLIER and BACKFILL:
`TIDELOG_PUMP_LOG_LEVEL` is the Pump's, and `TIDELOG_LOG_LEVEL` that of all services of a machine.
"""


def page() -> str:
    common = {name: key for name, key in keys_of(ServiceConfig).items() if not key.from_file}
    parts = [WRITTEN, INTRODUCTION, "## Every service\n", COMMON, _table("<SERVICE>", common)]
    for section, config in CONFIGS.items():
        own = {
            name: key
            for name, key in keys_of(config).items()
            if not key.from_file and not _is_common(name, key, common)
        }
        parts += [f"## {section.capitalize()}\n", _table(section, own)]
        if config.unused:
            parts += [f"### Keys of the original without a meaning in the {section}\n"]
            parts += [table(("key", "instead"), [(code(k), v) for k, v in config.unused.items()])]
    return "\n".join(parts)


def _is_common(name: str, key: Key, common: Mapping[str, Key]) -> bool:
    known = common.get(name)
    return known is not None and (known.type, known.default) == (key.type, key.default)


def _table(section: str, keys: Mapping[str, Key]) -> str:
    return table(HEAD, _rows(section, keys))


def _rows(section: str, keys: Mapping[str, Key]) -> Iterator[tuple[str, str, str, str]]:
    for name, key in keys.items():
        variable = f"TIDELOG_{section.upper()}_{name.upper().replace('-', '_')}"
        names = "<br>".join(map(code, (".".join(key.table), f"--{name}", variable)))
        allowed = "" if key.range is None else f", {key.range}"
        kind = "secret" if key.type is Secret else key.type_text
        yield names, f"{kind}{allowed}", code(_default(key)), key.help


def _default(key: Key) -> str:
    if key.default is msgspec.NODEFAULT:
        return ""
    value: Any = "" if isinstance(key.default, Secret) else key.default
    return msgspec.json.encode(value).decode()
