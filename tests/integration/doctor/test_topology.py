"""`tidelog doctor` on a real topology: well, with a Pump gone, and with everything gone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.processes import until
from tests.topology import TIDELOG, Running, tidelog, up
from tidelog.errors import EXIT_FAILED, EXIT_OK
from tidelog_cli.doctor.finding import OK, WRONG

ENDS_S = 30.0
"""Far more than it needs on a busy machine, far less than one that waits for everything in turn."""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    home = tmp_path_factory.mktemp("doctor")
    with up(home / "top", f"sqlite:///{home / 'down.db'}") as found:
        yield found


def doctor(running: Running, *options: str) -> tuple[int, dict[tuple[str, str], Any]]:
    """The exit code, and each finding by what it is about, the worst last."""
    done = running.command("doctor", "--json", *options)
    result = json.loads(done.stdout)
    assert set(result) == {"well", "counts", "findings"}
    assert result["well"] == (done.returncode == EXIT_OK)
    findings = reversed(result["findings"])
    return done.returncode, {(f["check"], f["about"]): f for f in findings}


def test_one_that_has_just_begun_is_well(running: Running) -> None:
    """The first test, in the seconds in which the nodes wait for each other."""
    code, found = doctor(running)
    assert code == EXIT_OK
    assert [f for (check, _), f in found.items() if check == "nodes" and f["verdict"] != OK] == []


def test_a_topology_that_works_is_well(running: Running, tmp_path: Path) -> None:
    config = tmp_path / "pump.toml"
    config.write_text('gc = "7"')
    options = ("--config", str(config), "--downstream", f"sqlite:///{tmp_path}/copy.db")
    code, found = doctor(running, *options)
    wrong = [finding for finding in found.values() if finding["verdict"] == WRONG]
    assert (code, wrong) == (EXIT_OK, [])
    for what in (
        ("nats", "sync_interval"),
        ("nodes", "pumps"),
        ("nodes", "drainers"),
        ("permissions", ""),
        ("services", "versions"),
        ("services", "applier"),
        ("clock", "registry"),
        ("clock", "NATS"),
        ("disk", "pump-1"),
        ("prewrites", "pump-2"),
        ("feed", "main"),
        ("config", str(config)),
    ):
        assert found[what]["verdict"] == OK, found.get(what)


def test_a_pump_that_is_gone_is_wrong_and_the_command_is_told(running: Running) -> None:
    os.kill(running.pid("pump-2"), signal.SIGSTOP)
    try:
        until(
            lambda: running.said("directory", of="registry")["unreachable"] == ["pump/pump-2"],
            "the lease to end",
        )
        code, found = doctor(running)
        assert code == EXIT_FAILED
        assert found["nodes", "pump-2"]["verdict"] == WRONG
        assert "tidelog offline pump-2 --accept-loss" in found["nodes", "pump-2"]["hint"]
        assert found["nodes", "pumps"]["verdict"] == OK
        assert found["services", "pump-2"]["verdict"] == "unknown"
    finally:
        os.kill(running.pid("pump-2"), signal.SIGCONT)


def test_another_feed_is_not_there(running: Running) -> None:
    done = running.command("doctor", "--feed", "other")
    assert done.returncode == EXIT_FAILED
    assert "→ `tidelog feed create other`" in done.stdout
    assert "nobody publishes feed other" in done.stdout


def test_it_ends_soon_when_nothing_is_there(tmp_path: Path) -> None:
    began = time.monotonic()
    state = {"nats": "nats://127.0.0.1:1", "cluster": "default", "feed": "main"}
    (tmp_path / "tidelog.json").write_text(json.dumps(state))
    silent = f"mysql://root:canary@192.0.2.1:3306/?unix_socket={tmp_path}/none"
    done = tidelog("doctor", "--dir", str(tmp_path), "--json", "--downstream", silent)
    assert done.returncode == EXIT_FAILED
    assert time.monotonic() - began < ENDS_S
    found = json.loads(done.stdout)["findings"]
    assert {f["check"] for f in found if f["verdict"] == WRONG} == {"nats", "nodes", "downstream"}
    assert "canary" not in done.stdout + done.stderr
    for finding in found:
        assert finding["hint"]


def test_without_a_topology_files_alone_are_looked_at(tmp_path: Path) -> None:
    argv = ("doctor", "--json", "--config", f"pump={tmp_path / 'none.toml'}")
    done = subprocess.run(
        [*TIDELOG, *argv],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    (finding,) = json.loads(done.stdout)["findings"]
    assert (done.returncode, finding["check"]) == (EXIT_FAILED, "config")
