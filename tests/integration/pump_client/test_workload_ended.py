"""A workload that a signal ends, though nobody gives it a timestamp."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import until
from tests.servers import nats_server


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_that_waits_for_a_registry_ends_at_once(number: signal.Signals, tmp_path: Path) -> None:
    with nats_server(tmp_path) as nats:
        command = [sys.executable, "-m", "tidelog.workload", "--nats", nats.url]
        said = tmp_path / "said"
        with said.open("wb") as err, subprocess.Popen(command, stderr=err) as workload:
            try:
                until(lambda: b"0 committed" in said.read_bytes(), "it waits", 120)
                workload.send_signal(number)
                assert workload.wait(60) == 128 + number
            finally:
                workload.kill()
        last = said.read_text().splitlines()[-1]
        assert last == "tidelog.workload: ended at once"  # nothing was under way
