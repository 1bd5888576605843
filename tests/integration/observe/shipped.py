"""What `deploy/` ships for watching, as a test reads it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[3]
PROMETHEUS = ROOT / "deploy/prometheus"
DASHBOARD = ROOT / "deploy/grafana/tidelog.json"
GUIDE = ROOT / "docs/metrics-and-alerts.md"
MADE_BY_PROMETHEUS = {"up", "ALERTS"}
KEYWORDS = {"and", "or", "unless", "by", "on", "without", "ignoring", "offset", "bool"} | {
    "group_left",
    "group_right",
    "sum",
    "max",
    "min",
    "count",
}
VARIABLES = {
    "$__rate_interval": "30s",
    "$__all": ".*",
    "$instance": ".*",
    "$feed": ".*",
    "$cluster": ".*",
}


def alerts() -> list[dict[str, Any]]:
    groups = yaml.safe_load((PROMETHEUS / "alerts.yml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(DASHBOARD.read_text())["panels"]
    return found


def panel_expressions() -> Iterator[tuple[str, str]]:
    """(title, expression) of each line of each panel, its variables filled in."""
    for panel in panels():
        for target in panel.get("targets", ()):
            yield panel["title"], filled(target["expr"])


def variable_expressions() -> Iterator[str]:
    """The series that the dashboard's variables take their values from."""
    for variable in json.loads(DASHBOARD.read_text())["templating"]["list"]:
        if variable["type"] == "query":
            inside = variable["definition"].removeprefix("label_values(").rpartition(",")[0]
            yield filled(inside)


def filled(expression: str) -> str:
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    return expression


def series_of(expression: str) -> set[str]:
    """The names of the series that a PromQL expression reads."""
    bare = re.sub(r'"[^"]*"', "", expression)
    bare = re.sub(r"\{[^}]*\}|\[[^\]]*\]", "", bare)
    bare = re.sub(r"\b(by|on|without|ignoring|group_left|group_right)\s*\([^)]*\)", r"\1 ", bare)
    words = re.findall(r"(?<![\w.$])([A-Za-z_:][\w:]*)(?!\s*\(|\w)", bare)
    return set(words) - KEYWORDS - MADE_BY_PROMETHEUS
