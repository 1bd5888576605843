"""docs/scenarios.md names a test for each scenario, and each is there."""

from __future__ import annotations

import ast
import re

import pytest

from tests.unit.test_tidy import ROOT

PAGE = ROOT / "docs/scenarios.md"
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.read_text().splitlines()
    if re.match(r"\| T\d", line)
]
LINK = re.compile(r"\[(test_\w+)\]\(\.\./([\w/.]+)\)")
COMMAND = re.compile(r"`python -m ([\w.]+)((?: --[\w-]+(?: [\w:.]+)?)*)(?: \w+)?`")
SCENARIOS = 22
FULL = "pytest.mark.full"


def runs_in_ci(name: str, path: str) -> bool:
    """A test that is not left to `make full` as a whole."""
    for node in ast.walk(ast.parse((ROOT / path).read_text())):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return FULL not in {ast.unparse(one) for one in node.decorator_list}
    return False


def test_each_scenario_has_one_row() -> None:
    assert [row[0] for row in ROWS] == [f"T{number}" for number in range(1, SCENARIOS + 1)]
    assert all(len(row) == 7 and all(row) for row in ROWS)


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_its_tests_and_commands_are_there(row: list[str]) -> None:
    tests = LINK.findall(row[4])
    assert tests
    for name, path in tests:
        found = re.findall(rf"^(?:async )?def {name}\(", (ROOT / path).read_text(), re.MULTILINE)
        assert len(found) == 1, f"{path} has no {name}"
        assert re.fullmatch(r"tests/.*/test_\w+\.py", path)
    assert any(runs_in_ci(name, path) for name, path in tests)
    commands = COMMAND.findall(row[5])
    assert commands or row[5].startswith("the same")
    for module, flags in commands:
        path = ROOT / module.replace(".", "/")
        source = next(p for p in (path.with_suffix(".py"), path / "__main__.py") if p.exists())
        text = source.read_text() + (ROOT / "tests/integration/kill_command.py").read_text()
        for flag in re.findall(r"--([\w-]+)", flags):
            assert f'"--{flag}"' in text or f'"{flag.replace("-", "_")}"' in text, (module, flag)
