"""Jobs as they travel, and what is refused at their making."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tidelog.bulk.jobs import (
    BackfillJob,
    ReplayJob,
    SparkSettings,
    decode_job,
    encode_job,
    read_job,
    shown_job,
)
from tidelog.bulk.told import Failed, Progress, Report, decode_line, encode_line
from tidelog.errors import ConfigError, Corrupt, UnparsablePayload

REPLAY = ReplayJob(inputs=("relay",), downstream="mysql://a:secret@db/", tables=("shop.*",))


def test_a_job_comes_back_as_it_was() -> None:
    copy = BackfillJob(source="mysql://db/", to_feed=True, snapshot_ts=5)
    assert decode_job(encode_job(REPLAY)) == REPLAY
    assert decode_job(encode_job(copy)) == copy


def test_a_job_needs_one_target() -> None:
    with pytest.raises(ConfigError, match="none is named"):
        ReplayJob(inputs=("relay",))
    with pytest.raises(ConfigError, match="several are named"):
        BackfillJob(source="mysql://db/", parquet="out", to_feed=True)
    with pytest.raises(ConfigError, match="nothing to replay"):
        ReplayJob(inputs=(), parquet="out")


def test_what_a_job_does_not_know_is_named() -> None:
    with pytest.raises(ConfigError, match="untill-ts"):
        decode_job(b'{"kind":"replay","inputs":["x"],"parquet":"out","untill-ts":3}')
    with pytest.raises(ConfigError, match=r"parts is 1000 \(parts takes 0 to 128 parts\)"):
        decode_job(b'{"kind":"replay","inputs":["x"],"parquet":"out","parts":1000}')


def test_a_job_may_be_a_toml_file(tmp_path: Path) -> None:
    path = tmp_path / "job.toml"
    path.write_text('kind = "replay"\ninputs = ["r"]\nparquet = "out"\n[spark]\nmaster = "local"\n')
    job = read_job(path)
    assert isinstance(job, ReplayJob)
    assert job.spark.master == "local"
    path.write_text("kind = ")
    with pytest.raises(ConfigError, match=r"job\.toml is not a job"):
        read_job(path)
    with pytest.raises(ConfigError, match="can't be read"):
        read_job(tmp_path / "none.json")


def test_no_password_is_shown() -> None:
    assert shown_job(REPLAY)["downstream"] == "mysql://a:***@db/"
    settings = {"spark.hadoop.fs.s3a.secret.key": "pw", "spark.cores.max": "2"}
    shown = shown_job(msgspec.structs.replace(REPLAY, spark=SparkSettings(settings=settings)))
    assert shown["spark"]["settings"] == settings | {"spark.hadoop.fs.s3a.secret.key": "***"}


def test_lines_come_back_as_they_were() -> None:
    failed = Failed.of(Corrupt("a bad record", hint="restore it"))
    for line in (Progress("reading", 1, 2, "chunks"), Report(7, rows=3), failed):
        assert decode_line(encode_line(line)) == line
    error = failed.error()
    assert isinstance(error, Corrupt)
    assert (error.message, error.hint, failed.exit_code) == ("a bad record", "restore it", 70)
    with pytest.raises(UnparsablePayload):
        decode_line(b"WARN something\n")


def test_an_unforeseen_error_is_told_by_its_own_name() -> None:
    assert Failed.of(KeyError("x")).message == "KeyError: 'x'"
