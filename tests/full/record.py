"""ran.json: which suites passed whole for the version that is to be released; docs/full-run.md."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from tests.commit import ROOT
from tests.full.suites import Suite

RECORD = Path(__file__).with_name("ran.json")
PAGE = ROOT / "docs/full-run.md"
HEAD = """# The full run

What `make full` ran whole for version {version}: {passed} of {all} suites. Each has to pass once
before a release; a run that was broken off goes on with those that are left, so that the commits
differ. `git rev-list --count COMMIT..HEAD -- shared services cli` says how much of the product has
changed since one of them. One whose command is another one now, that looks at more than it did, or
of more planted bugs, is left again. Written by `python -m tests.full.run --write`.

| suite | command | on | commit | minutes | its last line |
|---|---|---|---|---|---|
"""


class Ran(msgspec.Struct, frozen=True, kw_only=True):
    """A suite that passed: by which command, on which day, of which sources, for how long, and what
    it said last. `cases`, `judge`: as its Suite had then."""

    command: str
    on: str
    commit: str
    seconds: int
    said: str
    cases: int = 0
    judge: int = 0


class Record(msgspec.Struct, kw_only=True):
    version: str
    suites: dict[str, Ran] = {}

    def left(self, suites: Iterable[Suite]) -> list[Suite]:
        """Never run whole, or by another command, with other counts, when there were other cases,
        or by a judge who looked at less."""
        return [suite for suite in suites if self.of(suite) is None]

    def of(self, suite: Suite) -> Ran | None:
        ran = self.suites.get(suite.name)
        asked = (suite.command, suite.cases, suite.judge)
        same = ran is not None and (ran.command, ran.cases, ran.judge) == asked
        return ran if same else None

    def why_left(self, suite: Suite) -> str:
        ran = self.suites.get(suite.name)
        if ran is None or ran.command != suite.command:
            return "not run whole yet"
        then = f"it said on {ran.on} ({ran.commit}): {ran.said}"
        if ran.judge != suite.judge:
            return f"it looks at more now; before that {then}"
        return f"{suite.cases} cases now; of {ran.cases} {then}"


def version() -> str:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return str(project["version"])


def load(path: Path = RECORD) -> Record:
    """Empty where what is there is of another version."""
    now = version()
    if path.exists():
        record = msgspec.json.decode(path.read_bytes(), type=Record)
        if record.version == now:
            return record
    return Record(version=now)


def save(record: Record, path: Path = RECORD) -> None:
    """Whole, or not at all."""
    fresh = path.with_suffix(".new")
    fresh.write_bytes(msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n")
    fresh.replace(path)


def page(record: Record, suites: tuple[Suite, ...]) -> str:
    passed = len(suites) - len(record.left(suites))
    head = HEAD.format(version=record.version, passed=passed, all=len(suites))
    return head + "".join(_rows(record, suites))


def _rows(record: Record, suites: Iterable[Suite]) -> Iterator[str]:
    for suite in suites:
        ran = record.of(suite)
        told = (
            f"{ran.on} | {ran.commit} | {ran.seconds / 60:.1f} | {ran.said.replace('|', '/')}"
            if ran
            else f"– | – | – | {record.why_left(suite).replace('|', '/')}"
        )
        yield f"| {suite.name} | `{suite.command}` | {told} |\n"
