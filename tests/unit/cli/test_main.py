"""`python -m tidelog_cli` where only the library is installed."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator

import pytest

from tidelog.errors import EXIT_CONFIG


def ours() -> list[str]:
    return [name for name in sys.modules if name.partition(".")[0] == "tidelog_cli"]


@pytest.fixture(autouse=True)
def _read_anew() -> Iterator[None]:
    kept = {name: sys.modules.pop(name) for name in ours()}
    yield
    for name in ours():
        del sys.modules[name]
    sys.modules.update(kept)


def begun(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    """One that it needs is not there."""
    monkeypatch.setitem(sys.modules, missing, None)
    importlib.import_module("tidelog_cli.__main__")


def test_a_package_of_the_terminal_that_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        begun(monkeypatch, "typer")
    assert ended.value.code == EXIT_CONFIG
    said = capsys.readouterr().err
    hint = "pip install '.[cli]' in a checkout of Tidelog"
    assert said == f"ConfigError: typer is not installed\n  try: {hint}\n"


def test_a_module_of_our_own_that_is_missing_is_no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ModuleNotFoundError, match=r"tidelog_cli\.completion"):
        begun(monkeypatch, "tidelog_cli.completion")
