"""The example that reads a log by Spark, as it stands: a program of somebody else's."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
import tarfile
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.fixtures.capture import DATA, ddl_history_json
from tests.fixtures.stream import Stream, Txn
from tests.spark.relay_files import BASE_TS, RelayFiles, keyed
from tests.unit.downstreams.shapes import column, ddl, table
from tidelog.timestamps import compose, physical_ms

EXAMPLE = Path(__file__).parents[2] / "examples" / "changes_per_minute.py"
SVG = "{http://www.w3.org/2000/svg}"
MINUTE_MS = 60_000
SHAPE = table("t", column("id", "bigint", nullable=False, id=1), key=("id",), number=10)
Counts = Counter[tuple[int, str]]
"""Changes by minute since 1970, and table."""


def run(cwd: Path, *arguments: str) -> list[str]:
    """As anybody runs it."""
    argv = [sys.executable, str(EXAMPLE), *arguments]
    done = subprocess.run(
        argv,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=os.environ | {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def run_here(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str
) -> list[str]:
    """In the session that there is: another costs seconds."""
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE), *arguments])
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    return capsys.readouterr().out.splitlines()


def told(counts: Counts) -> list[str]:
    return [
        f"{datetime.fromtimestamp(minute * 60, UTC):%Y-%m-%d %H:%M} {place}: {count}"
        for (minute, place), count in sorted(counts.items())
    ]


def drawn(chart: Path) -> Counts:
    """As the bars show it: by their places and heights, the first minute being 0."""
    root = ET.parse(chart).getroot()
    found: Counts = Counter()
    tops: Counter[int] = Counter()
    for bar in root.iter(f"{SVG}rect"):
        minute, height = int(bar.attrib["x"]), int(bar.attrib["height"])
        tops[minute] += height
        assert int(bar.attrib["y"]) == -tops[minute]
        title = bar.findtext(f"{SVG}title")
        assert title is not None
        found[minute, title[len("2026-01-31 12:00 ") :].rpartition(": ")[0]] = height
    return found


def from_first(counts: Counts) -> Counts:
    first = min(minute for minute, _ in counts)
    return Counter({(minute - first, place): count for (minute, place), count in counts.items()})


def written(directory: Path) -> Counts:
    """A relay of some minutes."""
    log = RelayFiles(directory / "relay")
    counts: Counts = Counter()
    begin = physical_ms(BASE_TS) // MINUTE_MS + 1
    for number, (minute, db) in enumerate([(0, "d"), (0, "e"), (1, "d"), (4, "e"), (4, "d")]):
        rows = 3 + number
        first = compose((begin + minute) * MINUTE_MS + number * 1000)
        events = [keyed(SHAPE, first + n, None, {"id": n}) for n in range(rows)]
        log.batch([(db, SHAPE, event) for event in events])
        counts[begin + minute, f"{db}.t"] += rows
    log.close()
    return counts


@pytest.mark.usefixtures("session")
def test_a_relay_as_a_chart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    counts = written(tmp_path)
    paths = [f"{tmp_path}/relay", f"{tmp_path}/changes.svg"]
    assert run_here(monkeypatch, capsys, *paths) == told(counts)
    assert drawn(tmp_path / "changes.svg") == from_first(counts)


@pytest.mark.full
def test_a_relay_as_a_chart_as_anybody_draws_it(tmp_path: Path) -> None:
    counts = written(tmp_path)
    assert run(tmp_path, "relay", "changes.svg") == told(counts)
    assert drawn(tmp_path / "changes.svg") == from_first(counts)


@pytest.mark.usefixtures("session")
def test_the_originals_log_as_a_chart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with tarfile.open(DATA / "set-a" / "pump_data_dir.tar.gz") as tar:
        tar.extractall(tmp_path, filter="data")
    (tmp_path / "history.json").write_bytes(ddl_history_json("set-a"))
    counts: Counts = Counter()
    for txn in Stream("set-a"):
        if isinstance(txn, Txn):
            minute = physical_ms(txn.commit_ts) // MINUTE_MS
            for part in txn.parts:
                counts[minute, f"{part.table.db}.{part.table.name}"] += len(part.changes)
    paths = [f"{tmp_path}/pump", f"{tmp_path}/changes.svg", f"file:{tmp_path}/history.json"]
    assert run_here(monkeypatch, capsys, *paths) == told(counts)
    assert drawn(tmp_path / "changes.svg") == from_first(counts)


@pytest.mark.usefixtures("session")
def test_a_log_without_rows_is_an_empty_chart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = RelayFiles(tmp_path / "relay")
    log.ddl(ddl("create_schema"))
    log.close()
    chart = tmp_path / "changes.svg"
    told = run_here(monkeypatch, capsys, f"{tmp_path}/relay", str(chart))
    assert told == [f"no changes in {tmp_path}/relay"]
    assert not drawn(chart)
    assert "no changes in" in chart.read_text()
