"""One Spark session and one MariaDB for all that a pytest process runs here."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.fixtures.test_downstream_sets import clean
from tests.servers import MariaDb, mariadb_server
from tests.spark.local import SETTINGS
from tidelog_backfill.session import spark
from tidelog_backfill.source import TidelogSource

# Each JVM lives for seconds: what its second compiler and a parallel collector cost never pays
# here, it is half of a session's start. Processes that a test starts inherit it.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


def _stop() -> None:
    active = SparkSession.getActiveSession()
    if active is not None:
        active.stop()


@pytest.fixture(scope="session")
def _stopped_at_the_end() -> Iterator[None]:
    yield
    _stop()


@pytest.fixture
def no_session() -> None:
    """For a test that makes its own."""
    _stop()


@pytest.fixture
def session(_stopped_at_the_end: None) -> SparkSession:
    """The one that there is, unless a test has stopped it."""
    found = spark(SETTINGS)
    found.dataSource.register(TidelogSource)
    return found


@pytest.fixture(scope="session")
def mariadb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    with mariadb_server(tmp_path_factory.mktemp("target")) as found:
        yield found


@pytest.fixture
def server(mariadb: MariaDb) -> MariaDb:
    """With no database of anybody's in it."""
    clean(mariadb)
    return mariadb
