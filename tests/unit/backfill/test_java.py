"""Without a JDK that is new enough there is one clear error, and one for each way in which Spark
does not start."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn

import pytest
from py4j.protocol import Py4JError

from tidelog.bulk.jobs import BackfillJob, SparkSettings, encode_job
from tidelog.bulk.process import PROGRAM
from tidelog.bulk.told import Failed, decode_line
from tidelog.errors import EXIT_CONFIG, ConfigError, TidelogError, Unavailable
from tidelog_backfill import session
from tidelog_backfill.session import JAVA_HINT, MASTER_HINT, check_java, spark


def jdk(home: Path, version: str) -> dict[str, str]:
    (home / "bin").mkdir(parents=True)
    java = home / "bin" / "java"
    java.write_text("#!/bin/sh\n")
    java.chmod(0o755)
    if version:
        (home / "release").write_text(f'IMPLEMENTOR="X"\nJAVA_VERSION="{version}"\n')
    return {"JAVA_HOME": str(home)}


def test_no_java(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none in PATH .*openjdk-17-jre-headless"):
        check_java({"PATH": str(tmp_path)})
    with pytest.raises(ConfigError, match="none in JAVA_HOME"):
        check_java({"JAVA_HOME": str(tmp_path), "PATH": "/usr/bin"})


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.22", "16"])
def test_an_old_java(tmp_path: Path, version: str) -> None:
    with pytest.raises(ConfigError, match=r"is Java (8|11|16) "):
        check_java(jdk(tmp_path, version))


@pytest.mark.parametrize("version", ["17", "17.0.15", "21-ea", "", "unheard"])
def test_a_java_that_will_do_or_that_spark_judges(tmp_path: Path, version: str) -> None:
    check_java(jdk(tmp_path, version))


def test_a_java_that_ends_at_once(tmp_path: Path) -> None:
    job = tmp_path / "job.json"
    job.write_bytes(encode_job(BackfillJob(source="/dump", parquet="/lake")))
    environ = os.environ | jdk(tmp_path / "jdk", "17")
    ended = subprocess.run([*PROGRAM, str(job)], env=environ, capture_output=True, check=False)
    failed = decode_line(ended.stdout.splitlines()[-1])
    assert isinstance(failed, Failed)
    assert failed.message.startswith("Spark does not start: [JAVA_GATEWAY_EXITED]")
    assert (failed.hint, ended.returncode) == (JAVA_HINT, EXIT_CONFIG)


class Refusing:
    """A builder of sessions whose Java says no."""

    def chosen(self, *_: object) -> Refusing:
        return self

    appName = master = config = chosen

    def refuse(self) -> NoReturn:
        raise Py4JError("it is no Spark\n\tat org.apache.spark.x")

    getOrCreate = refuse


@pytest.mark.parametrize(
    ("master", "kind", "hint"),
    [("local[1]", ConfigError, JAVA_HINT), ("spark://127.0.0.1:{}", Unavailable, MASTER_HINT)],
)
def test_a_java_that_refuses(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    master: str,
    kind: type[TidelogError],
    hint: str,
) -> None:
    """Settings, or a master that is of another version."""
    monkeypatch.setenv("JAVA_HOME", jdk(tmp_path, "17")["JAVA_HOME"])
    for name in ("SPARK_LOCAL_IP", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.setenv(name, "")  # as they were, after the test
    monkeypatch.setattr(session, "SparkSession", SimpleNamespace(builder=Refusing()))
    with socket.create_server(("127.0.0.1", 0)) as there, pytest.raises(kind) as raised:
        spark(SparkSettings(master=master.format(there.getsockname()[1])))
    assert raised.value.message.endswith(": it is no Spark")
    assert raised.value.hint == hint
