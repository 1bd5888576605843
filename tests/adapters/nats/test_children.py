"""Children: the embedded NATS server, and that no child outlives its parent."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests import processes
from tests.conditions import until
from tidelog.errors import ConfigError
from tidelog.ports import StreamConfig
from tidelog.real.bus import NatsBus
from tidelog.real.nats_server import EmbeddedNats
from tidelog.real.processes import RealProcesses

PARENT = """
import asyncio, sys
from tidelog.real.processes import RealProcesses

async def run():
    child = await RealProcesses().start(["sleep", "600"])
    print(child.pid, flush=True)
    await asyncio.sleep(600)

asyncio.run(run())
"""


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def test_the_server_keeps_port_and_store_over_restarts(tmp_path: Path) -> None:
    async def run() -> None:
        server = EmbeddedNats(tmp_path / "nats")
        await server.start()
        await server.start()
        url, pid = server.url, server.pid
        bus = await NatsBus.connect(url)
        created = await bus.stream_create(StreamConfig("S", ("s.>",)))
        server.kill()
        await until(lambda: not alive(pid))
        assert not server.running
        await server.start()
        assert server.url == url
        await until(lambda: bus.connected and bus.reconnects == 1)
        state = await bus.stream_state("S")
        assert state is not None
        assert state.created == created.created
        await bus.close()
        await server.stop()
        await server.stop()
        assert server.pid == 0

    asyncio.run(run())


def test_the_server_syncs_each_write_on_localhost_only(tmp_path: Path) -> None:
    """By what it says itself: an answer to a publish is worth what its disk has."""

    async def run() -> None:
        server = EmbeddedNats(tmp_path / "nats")
        await server.start()

        def told(page: str) -> dict[str, Any]:
            with urllib.request.urlopen(f"{server.monitoring_url}/{page}", timeout=20) as answer:
                return dict(json.load(answer))

        config = (await asyncio.to_thread(told, "jsz?config=true"))["config"]
        assert config["sync_always"] is True
        assert config["store_dir"].startswith(str(tmp_path))
        assert (await asyncio.to_thread(told, "varz"))["host"] == "127.0.0.1"
        await server.stop()

    asyncio.run(run())


def test_a_child_writes_its_log_and_can_be_ended(tmp_path: Path) -> None:
    async def run() -> None:
        log = tmp_path / "log"
        processes = RealProcesses()
        argv = ["sh", "-c", "echo $GREETING; exit 3"]
        child = await processes.start(argv, env={"GREETING": "hello"}, log_path=str(log))
        assert await child.wait() == 3
        assert (child.returncode, log.read_text()) == (3, "hello\n")
        child.terminate()
        sleeping = await processes.start(["sleep", "600"])
        sleeping.terminate()
        assert await sleeping.wait() == -signal.SIGTERM
        with pytest.raises(ConfigError, match="can't be started"):
            await processes.start(["there-is-no-such-program"])

    asyncio.run(run())


def test_no_child_outlives_us() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert alive(child)
        parent.kill()
    processes.until(lambda: not alive(child), "the child's end", 10)
