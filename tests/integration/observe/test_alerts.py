"""The alert rules, by Prometheus' own tool: each fires on what it is for, and only on that."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.observe.alert_cases import CASES, Case, Series
from tests.integration.observe.shipped import GUIDE, PROMETHEUS, alerts

SEVERITIES = {"emergency", "critical", "warning"}
AT = {"CommitsUnverified": "15m"}
"""When a case's alert is looked for, if not after 10 minutes."""


def promtool(*arguments: str) -> str:
    tool = shutil.which("promtool")
    assert tool, "promtool is missing: tests/need.sh promtool prometheus"
    done = subprocess.run([tool, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def rule_test(name: str, series: Series, *, fires: bool) -> dict[str, Any]:
    expected = [{"value": 1}] if fires else []
    asked = f'count(ALERTS{{alertname="Tidelog{name}", alertstate="firing"}})'
    return {
        "interval": "15s",
        "input_series": [{"series": s, "values": values} for s, values in series.items()],
        "promql_expr_test": [
            {"expr": asked, "eval_time": AT.get(name, "10m"), "exp_samples": expected}
        ],
    }


def cases_of(name: str, case: Case) -> list[dict[str, Any]]:
    quiet = [case.good, *([case.young] if case.young else [])]
    return [
        rule_test(name, {**case.bad, **case.also}, fires=True),
        *(rule_test(name, {**series, **case.also}, fires=False) for series in quiet),
    ]


def file_of(directory: Path, rule: dict[str, Any], case: Case) -> Path:
    """An alert's rule and its tests, alone: all rules in each test take long."""
    name = rule["alert"].removeprefix("Tidelog")
    rules, tests = directory / f"{name}.rules", directory / f"{name}.yml"
    rules.write_text(yaml.safe_dump({"groups": [{"name": name, "rules": [rule]}]}))
    content = {"rule_files": [str(rules)], "evaluation_interval": "15s"}
    tests.write_text(yaml.safe_dump(content | {"tests": cases_of(name, case)}))
    return tests


def test_the_configuration_and_the_rules_are_valid() -> None:
    promtool("check", "config", str(PROMETHEUS / "prometheus.yml"))
    assert f"{len(alerts())} rules found" in promtool(
        "check", "rules", str(PROMETHEUS / "alerts.yml")
    )


def test_every_alert_fires_on_what_it_is_for_and_not_otherwise(tmp_path: Path) -> None:
    named = [rule["alert"] for rule in alerts()]
    assert sorted(named) == sorted(f"Tidelog{name}" for name in CASES)
    files = [
        file_of(tmp_path, rule, CASES[rule["alert"].removeprefix("Tidelog")]) for rule in alerts()
    ]
    promtool("test", "rules", *map(str, files))


@pytest.mark.parametrize("rule", alerts(), ids=lambda rule: str(rule["alert"]))
def test_every_alert_says_what_to_do_and_the_guide_says_more(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in SEVERITIES
    notes = rule["annotations"]
    assert set(notes) == {"summary", "description", "runbook"}
    assert len(notes["summary"].split()) > 3
    headings = re.findall(r"^### (\w+)$", GUIDE.read_text(), re.MULTILINE)
    assert rule["alert"] in headings
    assert notes["runbook"] == f"docs/metrics-and-alerts.md#{rule['alert'].lower()}"
