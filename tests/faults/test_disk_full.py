"""Each service's disk is filled once; `make full` does it 200 times (R11).

In a process of its own, in a mount namespace of its own: what it mounts goes with it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.faults.disk_full import SERVICES

SEED = 2


@pytest.mark.timeout(300)
def test_full_disks_mend_themselves() -> None:
    argv = [sys.executable, "-m", "tests.faults.disk_full"]
    argv += ["--fills", str(len(SERVICES)), "--seed", str(SEED)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=280, check=False)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"disk full: {len(SERVICES)} cases, 0 lost" in done.stdout.splitlines()[-1]
