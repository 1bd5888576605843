"""`tidelog up` where a reader can't work: writes are taken, and somebody is told."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path

from tests.acceptance.writing import CLUSTER_ID, pump_of, row
from tests.processes import until
from tests.servers import free_port
from tests.topology import Running, up

FLAGS = ("--pumps", "1", "--oracle", "follow", "--cluster-id", str(CLUSTER_ID))


def readyz(running: Running, service: str) -> tuple[int, str]:
    state = json.loads((running.directory / "tidelog.json").read_text())
    try:
        with urllib.request.urlopen(f"{state['http'][service]}/readyz", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def told(running: Running) -> list[str]:
    return running.directory.with_suffix(".err").read_text().splitlines()


def test_an_unreachable_downstream_keeps_nobody_from_writing(tmp_path: Path) -> None:
    url = f"mysql://tide@127.0.0.1:{free_port()}/"
    with up(tmp_path / "top", url, *FLAGS) as running:
        with pump_of(running) as pump:
            assert pump.transaction(row(1))
        code, why = readyz(running, "applier")
        assert code == 503
        assert why.startswith("not ready: the downstream was never opened: ")
        assert readyz(running, "drainer")[0] == 200
        lines = told(running)
        assert any(line.startswith("applier is not ready: the downstream was") for line in lines)
        until(lambda: any(line.startswith("applier: ") for line in told(running)), "the error")


def test_a_history_that_nobody_serves_keeps_nobody_from_writing(tmp_path: Path) -> None:
    database, history = f"sqlite:///{tmp_path / 'x.db'}", f"http://127.0.0.1:{free_port()}"
    with up(tmp_path / "top", database, *FLAGS, "--ddl-history", history) as running:
        with pump_of(running) as pump:
            assert pump.transaction(row(1))
        code, why = readyz(running, "drainer")
        assert code == 503
        assert f"{history}/ddl/history can't be asked" in why
        lines = told(running)
        assert any(line.startswith("waiting for drainer: the feed has not begun") for line in lines)
