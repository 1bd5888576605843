"""Configuration files of each service, and the same settings as variables."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import msgspec

from tests.fuzz.mutation import mutated
from tests.fuzz.surface import Surface
from tidelog.config import ServiceConfig, keys_of, load, redacted
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
SECTIONS = tuple(CONFIGS)


@cache
def full(section: str) -> bytes:
    """Every key with its default."""
    lines: dict[tuple[str, ...], list[str]] = {}
    for key in keys_of(CONFIGS[section]).values():
        if key.from_file or key.default is msgspec.NODEFAULT:
            continue
        value = key.default
        if not isinstance(value, (str, int, float, bool)):
            value = [] if isinstance(value, (list, tuple)) else {} if value == {} else ""
        text = msgspec.json.encode(value).decode()
        lines.setdefault(key.table[:-1], []).append(f"{key.table[-1]} = {text}")
    tables = [
        "\n".join([*([f"[{'.'.join(table)}]"] if table else []), *body])
        for table, body in sorted(lines.items())
    ]
    return "\n".join(tables).encode()


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="fuzz-")


def file(data: bytes) -> object:
    """The first byte says of which service."""
    section = SECTIONS[data[0] % len(SECTIONS)] if data else "pump"
    path = Path(_folder().name) / "tidelog.toml"
    path.write_bytes(data[1:])
    return redacted(load(CONFIGS[section], section, ["--config", str(path)], {}))


def variables(data: bytes) -> object:
    """Lines of `key = value` as the variables and flags that they would be."""
    section = SECTIONS[data[0] % len(SECTIONS)] if data else "pump"
    environ: dict[str, str] = {}
    flags: list[str] = []
    for number, line in enumerate(data[1:].decode("utf-8", "replace").split("\n")):
        name, _, value = line.replace("\0", "").partition("=")
        if name.strip() == "config":
            continue
        if number % 2:
            flags.append(f"--{name.strip()}={value.strip().strip(chr(34))}")
        else:
            variable = name.strip().upper().replace("-", "_")
            environ[f"TIDELOG_{variable}"] = value.strip().strip('"')
    return redacted(load(CONFIGS[section], section, flags, environ))


def _make(rng: random.Random) -> bytes:
    at = rng.randrange(len(SECTIONS))
    seeds = [full(section) for section in SECTIONS]
    lines = seeds[at].split(b"\n")
    if rng.random() < 0.5:  # a few keys: else one wrong line hides all others
        lines = rng.sample(lines, min(len(lines), 4))
    return bytes([at]) + mutated(rng, b"\n".join(lines), "text", seeds)


def surfaces() -> list[Surface]:
    seeds = [bytes([at]) + full(section) for at, section in enumerate(SECTIONS)]
    return [
        Surface("config file", "text", seeds, file, 6, make=_make),
        Surface("variables", "text", seeds, variables, 4, make=_make),
    ]
