"""Without a JDK that is new enough there is one clear error."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidelog.errors import ConfigError
from tidelog_backfill.session import check_java


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
