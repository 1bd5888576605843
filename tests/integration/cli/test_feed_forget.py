"""`tidelog feed forget` on a topology that runs: what is read stays, a slip of the pen is named."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.topology import up
from tidelog import subjects
from tidelog.compression import unpack
from tidelog.errors import EXIT_FAILED, EXIT_USAGE
from tidelog.real.bus import NatsBus
from tidelog_proto.transport_pb2 import PullRequest


async def pull(nats: str, feed: str) -> None:
    bus = await NatsBus.connect(nats, name="by-hand")
    try:
        body = PullRequest(feed=feed, max_bytes=1 << 16).SerializeToString()
        answer = await bus.request(subjects.pump("default", "pump-1", "pull"), body, timeout_s=10)
        assert not unpack(answer.data).code
    finally:
        await bus.close()


def test_what_is_read_stays_and_a_slip_of_the_pen_is_named(tmp_path: Path) -> None:
    with up(tmp_path / "top", f"sqlite:///{tmp_path / 'down.db'}") as running:
        read = running.command("feed", "forget", "main", "--yes")
        assert read.returncode == EXIT_FAILED, read.stderr
        assert "feed 'main' has readers: " in read.stderr
        asyncio.run(pull(running.nats, "mian"))
        unasked = running.command("feed", "forget", "mian")
        assert (unasked.returncode, "--yes" in unasked.stderr) == (EXIT_USAGE, True)
        lately = running.command("feed", "forget", "mian", "--yes", "--json")
        assert lately.returncode == EXIT_FAILED
        assert "pulled from pump-1 in the last 60 s" in lately.stderr.replace("\n", " ")
        unknown = running.command("feed", "forget", "miam", "--yes")
        assert unknown.returncode == EXIT_USAGE
        assert "nobody knows a feed 'miam'" in unknown.stderr
