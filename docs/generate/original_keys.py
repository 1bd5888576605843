"""docs/reference/original-keys.md: what each key of TiDB Binlog's configurations becomes."""

from __future__ import annotations

from collections.abc import Mapping

from docs.generate.markdown import WRITTEN, code, table
from tidelog_cli.config_import.rules import DRAINER_RULES, PUMP_RULES, Rule

INTRODUCTION = """# Keys of TiDB Binlog

What `tidelog config import` makes of each key of `pump.toml` and `drainer.toml`; how to move:
[migration](../guide/migration.md). In names `_` and `-` are the same. A Drainer becomes a Drainer
and an Applier.
"""


def page() -> str:
    parts = [WRITTEN, INTRODUCTION, "## pump.toml\n", _table(PUMP_RULES)]
    return "\n".join([*parts, "## drainer.toml\n", _table(DRAINER_RULES)])


def _table(rules: Mapping[str, Rule]) -> str:
    rows = [(code(key), ", ".join(map(_place, rule.to)), rule.note) for key, rule in rules.items()]
    return table(("key", "here", "note"), rows)


def _place(place: str) -> str:
    service, _, key = place.partition(":")
    return f"{service}: {code(key)}"
