"""One topology for the cases of a file."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.daily.stage import Stage, staged
from tests.acceptance.upstream.binlog import OPTIONS
from tests.servers import mariadb_server
from tests.topology import up

Case = Callable[[Stage], Coroutine[Any, Any, None]]
SOURCE_ZONE = "--default-time-zone=+09:00"
COPY_ZONE = "--default-time-zone=-05:00"


@pytest.fixture(scope="module")
def play(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Case], None]]:
    """Runs a case on the stage that those of the file share. It ends with them: between cases
    nobody answers NATS, which after some minutes takes a silent client for gone."""
    directory: Path = tmp_path_factory.mktemp("daily")
    with (
        mariadb_server(directory / "source", *OPTIONS, SOURCE_ZONE) as source,
        mariadb_server(directory / "copy", COPY_ZONE) as copy,
        up(directory / "top", f"mysql://root@{copy.host}:{copy.port}/", "--pumps", "2") as running,
        asyncio.Runner() as runner,
    ):
        life = staged(source, copy, running, directory / "state")
        stage = runner.run(life.__aenter__())
        try:
            yield lambda case: runner.run(case(stage))
        finally:
            runner.run(life.__aexit__(None, None, None))
