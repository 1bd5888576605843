"""Bulk jobs at the command line: what is read, what is shown, what is handed over."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from tidelog.bulk.control import JobStatus
from tidelog.bulk.jobs import SparkSettings
from tidelog.bulk.told import Failed, Progress, Report
from tidelog.errors import BadInput, ConfigError, Corrupt, NotFound, Refused
from tidelog.timestamps import LOGICAL_MAX, compose
from tidelog_cli import bulk, hand_over
from tidelog_cli.app import app
from tidelog_cli.commands import bulk_options

NOON = compose(1_769_860_800_000)


@pytest.mark.parametrize(
    ("text", "ts"),
    [
        ("", 0),
        ("463", 463),
        ("2026-01-31T12:00:00", NOON + LOGICAL_MAX),
        ("2026-01-31 13:00:00+01:00", NOON + LOGICAL_MAX),
        ("2026-01-31T12:00:00.001", NOON + (1 << 18) + LOGICAL_MAX),
    ],
)
def test_a_timestamp_is_digits_or_the_end_of_a_moment(text: str, ts: int) -> None:
    assert bulk_options.timestamp(text, "--until") == ts


@pytest.mark.parametrize("text", ["yesterday", "1960-01-01", "99999999999999999999"])
def test_what_is_no_timestamp_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--until"):
        bulk_options.timestamp(text, "--until")


def test_paths_are_made_absolute_and_urls_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert bulk_options.place("data/relay") == str(tmp_path / "data/relay")
    assert bulk_options.place("file:jobs.json") == f"file:{tmp_path}/jobs.json"
    for as_it_is in ("", "mysql://a@db/", "s3a://bucket/x", "file:///there", "hdfs://n/x"):
        assert bulk_options.place(as_it_is) == as_it_is


def test_progress_and_reports_are_for_people() -> None:
    progress = Progress("replaying", 5, 10, "chunks", 1200, NOON, 1, 3, "folding")
    assert bulk_options.line(progress) == (
        "5 of 10 chunks, segment 1 of 3, 1,200 rows, up to 2026-01-31 12:00:00, folding"
    )
    report = Report(NOON, 0, 4000, 400, 2, 1, 3, 2.0, 77, {"filtered": 5}, "exact", ["slow disk"])
    assert bulk_options.report_lines(report) == [
        "done: 4,000 rows of 2 tables, 400 written, 1 DDLs, 2 s, 2,000 rows/s",
        f"it holds everything up to {NOON} (2026-01-31 12:00:00 UTC)",
        "guarantee: exact",
        "skipped: 77 bytes of damaged records",
        "left out, filtered: 5",
        "warning: slow disk",
    ]


def test_progress_is_json_where_it_is_asked_for(capfd: pytest.CaptureFixture[str]) -> None:
    progress = Progress("replaying", 5, 10, "rows", note="[b]a[/b] " + 200 * "x")
    with bulk_options.Shown(as_json=True) as shown:
        shown.told(progress)
        shown.told(progress)
        shown.told(Progress("ddl"))
    lines = capfd.readouterr().err.splitlines()
    assert [msgspec.json.decode(line, type=Progress) for line in lines] == [
        progress,
        Progress("ddl"),
    ]


def test_a_job_s_end_is_its_report_or_its_error() -> None:
    failed = Failed.of(Corrupt("000001.vlog at 77"))
    assert bulk.outcome(JobStatus("a", "replay", "done", {}, report=Report(7))) == Report(7)
    with pytest.raises(Corrupt, match="at 77"):
        bulk.outcome(JobStatus("a", "replay", "failed", {}, failed=failed))
    with pytest.raises(Refused, match="job a is cancelled"):
        bulk.outcome(JobStatus("a", "replay", "cancelled", {}))


def applier(directory: Path, text: str) -> Path:
    home = directory / "applier"
    (home / "relay").mkdir(parents=True)
    (home / "applier.toml").write_text(f'data-dir = "{home}"\n{text}')
    return home


def test_an_applier_s_backlog_is_a_job_with_its_own_settings(tmp_path: Path) -> None:
    home = applier(
        tmp_path,
        'feed = "shop"\ndownstream = "mysql://copy@db/"\nchannel-id = 7\nworker-count = 9\n'
        f'downstream_password_file = "{tmp_path}/secret"\n',
    )
    (tmp_path / "secret").write_text("pw\n")
    given = hand_over.settings("applier", None, tmp_path)
    job = given.job({"spark": SparkSettings(master="local[2]"), "parts": 3, "until_ts": 9})
    assert job.inputs == (str(home / "relay"),)
    assert (job.feed, job.downstream, job.channel_id) == ("shop", "mysql://copy@db/", 7)
    assert (job.spark.master, job.parts, job.until_ts) == ("local[2]", 3, 9)
    assert given.password == "pw"


def test_what_the_applier_itself_goes_by_counts(tmp_path: Path) -> None:
    applier(tmp_path, 'downstream = "mysql://copy:pw@db/"\nchannel-id = 7\n')
    job = hand_over.settings("applier", None, tmp_path).job({})
    told = {"downstream": "mysql://copy:***@db/", "channel_id": 8, "checkpoint_table": "x.y"}
    found = hand_over.as_told(job, told | {"of a later version": 1})
    assert (found.channel_id, found.checkpoint_table, found.feed) == (8, "x.y", "main")
    assert found.downstream == "mysql://copy:pw@db/"
    assert hand_over.as_told(job, {}) == job
    with pytest.raises(ConfigError, match=r"the Applier writes mysql://other/"):
        hand_over.as_told(job, {"downstream": "mysql://other/"})


def test_an_applier_that_can_t_be_handed_over(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="does not exist"):
        hand_over.settings("applier", None, tmp_path)
    home = applier(tmp_path, '[relay]\nlog-dir = ""\n')
    with pytest.raises(BadInput, match="keeps no relay log"):
        hand_over.settings("applier", None, tmp_path)
    (home / "applier.toml").write_text(f'data-dir = "{home}"\n[relay]\nlog-dir = "elsewhere"\n')
    with pytest.raises(NotFound, match="no directory of this machine"):
        hand_over.settings("applier", home / "applier.toml", None)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["replay", "--local", "--parquet", "out"], "nothing to replay"),
        (["replay", "--local", "--input", "x"], "one target is needed"),
        (["replay", "--of", "applier", "--tables", "a.b"], "from the Applier"),
        (["replay", "--local", "--input", "x", "--on-corrupt", "maybe"], "stop or skip"),
        (["backfill", "--source", "mysql://db/", "--local"], "downstream, parquet, to-feed"),
        (["backfill", "--source", "mysql://db/", "--to-feed"], "no topology was started"),
        (["jobs", "cancel", "x"], "no topology was started"),
        (["jobs", "x"], "no topology was started"),
        (["jobs"], "no topology was started"),
    ],
)
def test_what_can_t_be_done_is_said_at_once(
    words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = CliRunner().invoke(app, words)
    assert found.exit_code not in (0, 2)
    assert said in found.output
