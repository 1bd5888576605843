"""The Spark session of a job, and the one thing it needs that pip can't install: Java.

    session = spark(SparkSettings(master="local[2]"))

Local mode by default. What a cluster needs beside it, docs/replay.md says and `cluster.py` checks.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from tidelog.bulk.jobs import SparkSettings
from tidelog.errors import ConfigError, Unavailable
from tidelog_backfill.cluster import is_local, own_address, said

JAVA = 17
"""Spark 4 needs it, or a newer one."""
JAVA_HINT = "apt-get install openjdk-17-jre-headless, or set JAVA_HOME to a JDK 17 or newer"
MASTER_HINT = "is it a Spark of this version, and can it reach this machine (spark.driver.host)?"
LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")
LOGS = f"-Dlog4j2.configurationFile={LOG_SETTINGS}"
TRIES = 4
"""Of each task, on a cluster and locally: the fourth failure ends the job."""

SETTINGS = {
    "spark.ui.enabled": "false",  # progress is told on NATS; nobody asked for a port
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",  # as the rows' TIMESTAMPs are
    "spark.sql.adaptive.enabled": "false",  # a part is a lane of the downstream: none is merged
    "spark.speculation": "false",  # a task's copy would take its lane away
    "spark.sql.python.filterPushdown.enabled": "true",  # commit_ts, db and table of the source
    "spark.sql.execution.arrow.maxRecordsPerBatch": "64",  # bundles of 1 MiB stay in memory
    "spark.sql.execution.arrow.maxBytesPerBatch": "64m",  # so do those of a large row each
    "spark.python.worker.reuse": "true",  # a worker starts once, not per task
    "spark.sql.execution.pyspark.udf.faulthandler.enabled": "true",  # a dead worker says where
    "spark.python.worker.faulthandler.enabled": "true",
    "spark.task.maxFailures": str(TRIES),
    "spark.driver.extraJavaOptions": LOGS,
}
LOCAL_SETTINGS = {
    # The JVM moves bytes for a minute or an hour: compiling it well costs more than that gains.
    "spark.driver.extraJavaOptions": f"{LOGS} -XX:TieredStopAtLevel=1",
    "spark.driver.host": "127.0.0.1",  # nobody outside takes part
    "spark.driver.bindAddress": "127.0.0.1",
}
CLUSTER_SETTINGS = {
    # How many parts there are depends on the cores: the first job waits until all are there that
    # were asked for, 30 s at most.
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
}


def spark(chosen: SparkSettings, *, name: str = "tidelog") -> SparkSession:
    """The session, made when there is none. Raises ConfigError without a JDK, or with settings that
    Spark does not start with, Unavailable without a cluster's master."""
    check_java(os.environ)
    local = is_local(chosen.master)
    settings = SETTINGS | (_here() if local else _on_cluster(chosen.master))
    settings |= {"spark.driver.memory": chosen.memory} | chosen.settings
    builder = SparkSession.builder.appName(name).master(_retrying(chosen.master))
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        return builder.getOrCreate()
    except (PySparkRuntimeError, Py4JError) as error:
        if local or isinstance(error, PySparkRuntimeError):
            raise ConfigError(f"Spark does not start: {said(error)}", hint=JAVA_HINT) from error
        raise Unavailable(
            f"{chosen.master} does not take the job: {said(error)}", hint=MASTER_HINT
        ) from error


def _here() -> dict[str, str]:
    """Tasks run in this very Python, with what it has installed."""
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    return LOCAL_SETTINGS


def _on_cluster(master: str) -> dict[str, str]:
    """Executors have this Python under the same path, unless PYSPARK_PYTHON says otherwise, and
    find the driver where the master sees it."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    address = own_address(master)
    return CLUSTER_SETTINGS | ({"spark.driver.host": address} if address else {})


def _retrying(master: str) -> str:
    """Local masters try each task once, unless their text says how often."""
    if master == "local":
        return f"local[1,{TRIES}]"
    if master.startswith("local[") and "," not in master:
        return f"{master[:-1]},{TRIES}]"
    return master


def check_java(environ: Mapping[str, str]) -> None:
    """Raises ConfigError. Java's version is read beside it, not asked of it: that takes longer."""
    home = environ.get("JAVA_HOME", "")
    found = shutil.which("java", path=f"{home}/bin" if home else environ.get("PATH", ""))
    if found is None:
        where = f"in JAVA_HOME ({home})" if home else "in PATH"
        raise ConfigError(f"Spark needs Java {JAVA}, and there is none {where}", hint=JAVA_HINT)
    version = _version(Path(found).resolve().parents[1] / "release")
    if version is not None and version < JAVA:
        raise ConfigError(f"Spark needs Java {JAVA}, and {found} is Java {version}", hint=JAVA_HINT)


def _version(release: Path) -> int | None:
    """By a JDK's own file; None if it has none, and Spark will see."""
    try:
        lines = release.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return None
    for key, _, value in (line.partition("=") for line in lines):
        if key == "JAVA_VERSION":
            first, _, rest = value.strip('"').partition(".")
            major = rest.partition(".")[0] if first == "1" else first  # Java 8 is 1.8
            digits = major.partition("-")[0].partition("_")[0]
            return int(digits) if digits.isdigit() else None
    return None
