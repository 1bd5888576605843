"""What a schedule stands on: watchers of the trace, stalled tasks, a disk that keeps nothing."""

from __future__ import annotations

import asyncio

import pytest

from tidelog.ports import Ports, Request
from tidelog.sim import World, run
from tidelog.sim.trace import Event, Trace


def test_a_watcher_sees_events_and_glimpses_and_the_digest_holds_only_events() -> None:
    seen: list[Event] = []
    watched, plain = Trace(lambda: 1.0), Trace(lambda: 1.0)
    watched.watchers.append(seen.append)
    for trace in (watched, plain):
        trace.event("a", "request", 5, b"body")
    watched.glimpse("a", "answered", "subject")
    assert seen == [Event("a", "request", "5", b"body"), Event("a", "answered", "subject", b"")]
    assert watched.digest == plain.digest
    assert (watched.count, plain.count) == (1, 1)


def test_an_answer_is_seen_when_the_asker_has_it_with_what_was_asked() -> None:
    async def main(world: World) -> list[Event]:
        seen: list[Event] = []
        server, client = world.ports("server"), world.ports("client")

        async def serve(request: Request) -> None:
            request.respond(b"yes")

        await server.bus.serve("ask", serve)
        world.trace.watchers.append(seen.append)
        await client.bus.request("ask", b"question", timeout_s=1)
        return seen

    asked, answered, answer = run(main, 1)
    assert asked == Event("client", "request", "ask 8", b"question")
    assert answered == Event("client", "answered", "ask", b"question")
    assert answer == Event("client", "answer", "ask", b"yes")


class Two:
    """A service of two tasks that count the time they get."""

    def __init__(self, config: None, ports: Ports) -> None:
        self.late_s = {"slow": 0.0, "quick": 0.0}
        self._ports = ports

    async def _tick(self, name: str) -> None:
        clock = self._ports.clock
        while True:
            due = clock.monotonic() + 0.01
            await clock.sleep(0.01)
            self.late_s[name] = max(self.late_s[name], clock.monotonic() - due)

    async def run(self, stop: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as group:
            for name in self.late_s:
                group.create_task(self._tick(name), name=name)


@pytest.mark.parametrize("killed", [False, True])
def test_a_stalled_task_takes_no_step_while_others_go_on(killed: bool) -> None:
    async def main(world: World) -> dict[str, float]:
        node = world.node("n")
        node.start(Two, None)
        await world.sleep(0.1)
        world.loop.stall("n", "slow", 1.0)
        await world.sleep(0.5)
        if killed:
            node.kill()
            node.restart()
        await world.sleep(1.0)
        late: dict[str, float] = node.service.late_s
        return late

    late = run(main, 3)
    assert late["quick"] < 0.01
    # The process that comes after a power loss is another one.
    assert late["slow"] < 0.01 if killed else 0.9 < late["slow"] < 1.01


def test_a_frozen_process_takes_no_step_and_then_goes_on() -> None:
    async def main(world: World) -> tuple[dict[str, float], dict[str, float]]:
        frozen, other = world.node("n"), world.node("m")
        for node in (frozen, other):
            node.start(Two, None)
        await world.sleep(0.1)
        world.loop.freeze("n", 1.0)
        await world.sleep(2.0)
        assert (frozen.starts, frozen.running) == (1, True)
        return frozen.service.late_s, other.service.late_s

    late, others = run(main, 3)
    assert all(0.9 < seconds < 1.01 for seconds in late.values())
    assert max(others.values()) < 0.01


@pytest.mark.parametrize("seed", range(8))
def test_a_disk_that_keeps_nothing_unsynced_loses_all_of_it(seed: int) -> None:
    async def main(world: World) -> None:
        ports = world.ports("n")
        world.nodes["n"].disk.faults.keeps_unsynced = False
        file = await ports.disk.open("f", create=True)
        await ports.disk.sync_dir("")
        await file.append([b"synced"], sync=True)
        await file.append([b"not synced"], sync=False)
        await ports.disk.open("g", create=True)
        world.nodes["n"].kill()
        disk = world.ports("n").disk
        assert disk.read_file("f") == b"synced"
        assert disk.listdir("") == ["f"]

    run(main, seed)


def test_a_lost_file_does_not_come_back() -> None:
    async def main(world: World) -> None:
        ports = world.ports("n")
        await ports.disk.write_file("f", b"x")
        await ports.disk.write_file("g", b"x")
        world.nodes["n"].disk.lose("f")
        world.nodes["n"].disk.lose("never there")
        world.nodes["n"].kill()
        assert world.ports("n").disk.listdir("") == ["g"]

    run(main, 1)
