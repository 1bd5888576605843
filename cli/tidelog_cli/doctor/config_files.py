"""Do configuration files say what their services understand? Read as the services read them."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from tidelog.config import SECTIONS, load
from tidelog.errors import ConfigError
from tidelog_cli.doctor.finding import About, Finding

CHECK = "config"
SERVICES = tuple(name for name in SECTIONS if name not in ("cli", "test"))


def check(given: str) -> Finding:
    """`FILE`, whose name tells the service (pump.toml), or `SERVICE=FILE`."""
    service, path = which(given)
    about = About(CHECK, path)
    if not service:
        hint = f"--config SERVICE={path}, SERVICE one of {', '.join(SERVICES)}"
        return about.wrong("its name does not say whose configuration it is", hint)
    try:
        config_class = class_of(service)
    except ModuleNotFoundError as error:
        hint = (
            f"pip install '.[{service}]' in a checkout of Tidelog, or run this where the"
            f" {service} runs"
        )
        return about.unknown(f"{error.name} is not installed here", hint)
    try:
        load(config_class, service, ["--config", path], {})
    except ConfigError as error:
        hint = error.hint or f"python -m tidelog_{service} --help lists the keys"
        return about.wrong(error.message, hint)
    return about.ok(f"a configuration of the {service}")


def which(given: str) -> tuple[str, str]:
    """Service and file; "" if nothing tells the service."""
    before, equals, path = given.partition("=")
    if equals and before in SERVICES:
        return before, path
    name = Path(given).stem
    return next((service for service in SERVICES if service in name), ""), given


def class_of(service: str) -> Any:
    """By its name, as `python -m` finds the service: the command line knows none of them. Raises
    ModuleNotFoundError."""
    module = importlib.import_module(f"tidelog_{service}.config")
    return getattr(module, f"{service.capitalize()}Config")
