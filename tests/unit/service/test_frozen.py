"""What a process does whose loop stands still: each in one of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tidelog.errors import EXIT_FAILED, EXIT_OK

PROGRAM = """
import asyncio, time
from tidelog import frozen

frozen.FROZEN_S, frozen.INTERVAL_S = 3.0, 0.1

def hold(seconds):
    time.sleep(seconds)

async def main():
    watchdog = frozen.Watchdog()
    watchdog.start()
    {body}

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("hold(60)", EXIT_FAILED),
        ("await asyncio.sleep(5)", EXIT_OK),
        ("watchdog.stop(); hold(5)", EXIT_OK),
    ],
    ids=["it stands still", "it turns", "it was told to watch no more"],
)
def test_a_loop_that_stands_still_ends_its_process_and_says_where(body: str, code: int) -> None:
    program = PROGRAM.replace("{body}", body)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == code, done.stderr
    assert ("in hold" in done.stderr) is (code == EXIT_FAILED)
