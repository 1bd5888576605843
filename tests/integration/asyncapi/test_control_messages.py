"""What services and operators really say to each other on NATS, against docs/asyncapi.yaml."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from pathlib import Path

import msgspec
import nats
import pytest
from nats.aio.msg import Msg

import tidelog
from tests.acceptance.described import channel_of, check
from tests.topology import Running, up

WANTED = {
    *("registry-heartbeat", "registry-nodes", "registry-state", "registry-safepoint"),
    *("registry-tso", "registry-ddl-append", "registry-ddl-list", "registry-event"),
    *("pump-write", "pump-pull", "pump-control", "drainer-control"),
}


class Listener:
    """Every request, reply and event while it listens; `wrong`: what is not as described."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()
        self.wrong: list[str] = []
        self._asked: dict[str, str] = {}

    async def heard(self, message: Msg) -> None:
        try:
            answers = self._asked.pop(message.subject, "")
            if answers:
                check(answers, message.data)
                self.seen[answers] += 1
            elif message.subject.startswith("tidelog."):
                channel = channel_of(message.subject)
                check(channel, message.data)
                self.seen[channel] += 1
                if message.reply:
                    self._asked[message.reply] = f"{channel}-reply"
        except (AssertionError, KeyError, msgspec.DecodeError) as error:
            self.wrong.append(f"{message.subject}: {error}")


async def talk(running: Running) -> Listener:
    """A workload writes, an operator orders."""
    listener = Listener()
    client = await nats.connect(running.nats)
    # One subscription: of two, each with a task of its own, a reply may come before its request.
    await client.subscribe(">", cb=listener.heard)
    await client.flush()
    writes = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tidelog.workload", "--nats", running.nats, "--seconds", "2"),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    for words in (
        ("pause", "pump-2"),
        ("resume", "pump-2"),
        ("ddl",),
        ("resolve", "1", "--rollback", "--yes"),
    ):
        await asyncio.to_thread(running.command, *words)
    async with tidelog.subscribe(nats_url=running.nats, consumer="described") as changes:
        await changes.unregister()
    assert await writes.wait() == 0
    await client.close()
    return listener


@pytest.mark.timeout(180)
def test_what_travels_is_as_described(tmp_path: Path) -> None:
    with up(tmp_path / "top", "blackhole:") as running:
        listener = asyncio.run(talk(running))
    assert listener.wrong == []
    assert WANTED - set(listener.seen) == set()
    answered = {name.removesuffix("-reply") for name in listener.seen if name.endswith("-reply")}
    assert WANTED - {"registry-event"} <= answered
