"""What `bench replay` is told by Spark, and where it has the JDBC driver from."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import msgspec
import pytest

from bench.jdbc_driver import Jar, fetched
from bench.on_spark import shuffled


def event(kind: str, **metrics: dict[str, int]) -> str:
    """As Spark writes it, with more in it than we look at."""
    named = {f"Shuffle {name} Metrics": values for name, values in metrics.items()}
    body = {"Event": f"SparkListener{kind}", "Task Metrics": {"JVM GC Time": 3, **named}}
    return msgspec.json.encode(body).decode()


def test_shuffled_is_what_ended_tasks_wrote() -> None:
    lines = [
        '{"Event":"SparkListenerLogStart","Spark Version":"4.3.0"}',
        event("TaskEnd", Write={"Shuffle Bytes Written": 700, "Shuffle Records Written": 9}),
        event("TaskEnd", Write={"Shuffle Bytes Written": 42}, Read={"Local Bytes Read": 9}),
        event("TaskEnd", Read={"Local Bytes Read": 742}),
        event("ExecutorMetricsUpdate", Write={"Shuffle Bytes Written": 5}),
        '{"Event":"SparkListenerTaskEnd"}',
    ]
    assert shuffled(lines) == 742


def offered(directory: Path, data: bytes) -> Jar:
    path = directory / "driver.jar"
    path.write_bytes(data)
    return Jar(path.as_uri(), sha256(data).hexdigest())


def test_a_driver_is_fetched_once(tmp_path: Path) -> None:
    jar = offered(tmp_path, b"a driver")
    path = fetched(jar, tmp_path / "cache")
    (tmp_path / "driver.jar").unlink()
    assert path == tmp_path / "cache" / "driver.jar"
    assert fetched(jar, tmp_path / "cache") == path
    assert path.read_bytes() == b"a driver"


def test_a_driver_that_cannot_be_fetched_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    jar = Jar((tmp_path / "driver.jar").as_uri(), "")
    assert fetched(jar, tmp_path / "cache") is None
    assert "left out" in capsys.readouterr().err


def test_another_file_is_refused_and_not_kept(tmp_path: Path) -> None:
    jar = offered(tmp_path, b"a driver")
    other = jar._replace(sha256="0" * 64)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="SHA-256"):
            fetched(other, tmp_path / "cache")
    assert not (tmp_path / "cache").exists()
    path = fetched(jar, tmp_path / "cache")
    assert path is not None
    path.write_bytes(b"damaged")
    with pytest.raises(RuntimeError, match="SHA-256"):
        fetched(jar, tmp_path / "cache")
