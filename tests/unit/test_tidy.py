"""The house's own rules as tests: lengths, bans that lint can't state, nothing of this machine."""

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAX_LINES = 500
PORT_ROOMS = ("shared/tidelog/real/", "shared/tidelog/sim/")
BANNED_CALLS = {"open"}


def tracked(pattern: str) -> list[Path]:
    """Files git tracks, and new ones it does not ignore."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", pattern],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return [ROOT / line for line in sorted(set(listed.split("\n"))) if (ROOT / line).is_file()]


def sources() -> list[Path]:
    return [
        path
        for path in tracked("*.py")
        if not path.name.endswith("_pb2.py")
        and path.relative_to(ROOT).parts[0] in ("shared", "services", "cli")
    ]


def test_no_file_is_longer_than_a_reading() -> None:
    written = [path for path in tracked("*.py") if not path.name.endswith("_pb2.py")]
    assert len(written) > 500
    long = {str(p): n for p in written if (n := len(p.read_text().splitlines())) > MAX_LINES}
    assert not long


def _banned(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id in BANNED_CALLS:
                yield f"{path.relative_to(ROOT)}:{node.lineno} calls {node.func.id}()"
        elif isinstance(node, ast.Try):
            for handler in node.handlers:
                if all(isinstance(s, ast.Pass) for s in handler.body):
                    yield f"{path.relative_to(ROOT)}:{handler.lineno} swallows an error"


@pytest.mark.parametrize("room", ["shared", "services", "cli"])
def test_files_are_opened_by_ports_only_and_no_error_is_swallowed(room: str) -> None:
    found = [
        line
        for path in sources()
        if (name := str(path.relative_to(ROOT))).startswith(f"{room}/")
        and not name.startswith(PORT_ROOMS)
        for line in _banned(path)
    ]
    assert not found


def test_nothing_names_this_machine_or_a_registry() -> None:
    told = re.compile(
        r"(?<![\w.])/(?:work|root)/|index[-]url|find[-]links|files[.]pythonhosted|registry[.]npmjs"
    )
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in tracked("*")
        if path.suffix not in (".xz", ".gz", ".png") and path != Path(__file__)
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        if told.search(line)
    ]
    assert not found
