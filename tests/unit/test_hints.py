"""What an error tells its reader to do can be done: the commands and options it names exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import typer.main

from tidelog_applier.config import ApplierConfig
from tidelog_backfill.config import BackfillConfig
from tidelog_cli.app import app
from tidelog_drainer.config import DrainerConfig
from tidelog_pump.config import PumpConfig
from tidelog_registry.config import RegistryConfig

ROOT = Path(__file__).parents[2]
CONFIGS = (ApplierConfig, BackfillConfig, DrainerConfig, PumpConfig, RegistryConfig)


def texts() -> Iterator[tuple[Path, str]]:
    """Every string that is a hint: `hint=…` of a call, or a class's `default_hint`."""
    for room in ("shared", "services", "cli"):
        for path in sorted((ROOT / room).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                value: ast.expr | None = None
                if isinstance(node, ast.keyword) and node.arg == "hint":
                    value = node.value
                elif isinstance(node, ast.Assign):
                    is_hint = getattr(node.targets[0], "id", "") == "default_hint"
                    value = node.value if is_hint else None
                for part in ast.walk(value) if value is not None else ():
                    if isinstance(part, ast.Constant) and isinstance(part.value, str):
                        yield path, part.value


def test_commands_and_options_of_hints_exist() -> None:
    names: set[str] = set()
    options: set[str] = set()
    commands = [typer.main.get_command(app)]
    while commands:
        command = commands.pop()
        names.add(command.name or "")
        options |= {option for parameter in command.params for option in parameter.opts}
        commands += getattr(command, "commands", {}).values()
    for config in CONFIGS:
        options |= {"--" + f.replace("_", "-") for f in config.__struct_fields__}
    seen = 0
    for path, text in texts():
        for name in re.findall(r"`tidelog ([a-z]+)", text):
            seen += 1
            assert name in names, f"{path.name}: {text}"
        for option in re.findall(r"(?<![\w-])(--[a-z][a-z-]+)", text):
            seen += 1
            assert option in options, f"{path.name}: {text}"
    assert seen >= 15, "the hints were not found"
