"""What `tidelog watch` shows, and that it never tells a change twice or one that was not."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from tidelog import messages, subjects
from tidelog.errors import Unavailable
from tidelog.messages import CLOSING, DRAINER, OFFLINE, ONLINE, PAUSED, PAUSING, Nodes, NodeStatus
from tidelog.ports import Bus
from tidelog.real.bus import NatsBus
from tidelog.sim.world import World, run
from tidelog_cli import watch as module
from tidelog_cli.watch import CHANGED, MISSED, SEEN, Deaf, Line, Watch, as_form, as_text

AT = 1_795_000_000_000


def pump(state: str, *, alive: bool = True, name: str = "p1") -> NodeStatus:
    return NodeStatus(name, state=state, isAlive=alive)


def told(watch: Watch, *what: NodeStatus | Nodes | Deaf) -> list[tuple[str, str, str]]:
    lines = [line for one in what for line in watch.take(one, AT)]
    return [(line.event, line.was, line.node.state if line.node else "") for line in lines]


def test_events_are_lines_with_what_was_before() -> None:
    watch = Watch()
    assert told(watch, Nodes([pump(ONLINE)])) == []
    assert told(watch, pump(PAUSING), pump(PAUSED)) == [
        (CHANGED, ONLINE, PAUSING),
        (CHANGED, PAUSING, PAUSED),
    ]
    assert told(watch, Nodes([pump(PAUSED)]), Nodes([pump(PAUSED)])) == []
    assert told(watch, pump(ONLINE, name="new")) == [(CHANGED, "", ONLINE)]


def test_a_change_that_no_event_told_is_seen_at_the_second_look() -> None:
    watch = Watch()
    told(watch, Nodes([pump(ONLINE)]))
    assert told(watch, Nodes([pump(CLOSING)])) == []
    assert told(watch, Nodes([pump(CLOSING)])) == [(SEEN, ONLINE, CLOSING)]
    assert told(watch, Nodes([pump(CLOSING)])) == []
    assert told(watch, Nodes([pump(CLOSING, alive=False)]), Nodes([pump(OFFLINE)])) == []
    assert told(watch, Nodes([pump(OFFLINE)])) == [(SEEN, CLOSING, OFFLINE)]


def test_an_event_that_overtakes_a_look_is_told_once() -> None:
    watch = Watch()
    told(watch, Nodes([pump(ONLINE)]))
    # The look was taken before the event, and is read after it.
    assert told(watch, pump(PAUSED), Nodes([pump(ONLINE)])) == [(CHANGED, ONLINE, PAUSED)]
    assert told(watch, Nodes([pump(PAUSED)]), Nodes([pump(PAUSED)])) == []
    # The look shows it first, the event is on its way.
    assert told(watch, Nodes([pump(ONLINE)]), pump(ONLINE)) == [(CHANGED, PAUSED, ONLINE)]
    assert told(watch, Nodes([pump(ONLINE)]), Nodes([pump(ONLINE)])) == []


def test_an_event_before_the_first_look_counts() -> None:
    watch = Watch()
    assert told(watch, pump(PAUSED)) == [(CHANGED, "", PAUSED)]
    assert told(watch, Nodes([pump(ONLINE)]), Nodes([pump(PAUSED)]), Nodes([pump(PAUSED)])) == []


def test_a_time_without_ears_is_said() -> None:
    watch = Watch()
    (line,) = watch.take(Deaf("NATS was away"), AT)
    assert line == Line(MISSED, AT, why="NATS was away")
    assert as_text(line).plain == "11:06:40  events may have been missed: NATS was away"


def test_a_line_for_a_machine_has_the_node_s_own_fields() -> None:
    watch = Watch()
    told(watch, Nodes([pump(ONLINE)]))
    (line,) = watch.take(pump(ONLINE, alive=False), AT)
    form = as_form(line)
    assert (form["event"], form["at_ms"], form["was"]) == (CHANGED, AT, ONLINE)
    assert (form["nodeId"], form["state"], form["isAlive"]) == ("p1", ONLINE, False)
    assert form["unreachable"]
    (deaf,) = watch.take(Deaf("x"), AT)
    assert as_form(deaf) == {"event": MISSED, "at_ms": AT, "why": "x"}


def test_a_line_for_a_person() -> None:
    watch = Watch()
    told(watch, Nodes([pump(ONLINE)]))
    node = NodeStatus("d\x1b", kind=DRAINER, state=ONLINE, detail={"error": "two\nlines"})
    (line,) = watch.take(node, AT)
    assert as_text(line).plain == (
        "11:06:40  drainer d\\x1b  online, unreachable  error: two\\nlines"
    )
    gone = NodeStatus("p2", state=OFFLINE, detail={"closing": "waits for readers to pass 7"})
    (line,) = watch.take(gone, AT)
    assert as_text(line).plain == "11:06:40  pump p2  offline"
    watch.take(Nodes([pump(PAUSED)]), AT)
    (line,) = watch.take(Nodes([pump(PAUSED)]), AT)
    assert as_text(line).plain == (
        "11:06:40  pump p1  paused  (was online)  (seen: no event told of it)"
    )


def test_an_event_that_can_t_be_read_is_told_as_one_that_was_missed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def known(_bus: Bus, _cluster: str) -> Nodes:
        return Nodes([pump(ONLINE)])

    monkeypatch.setattr(module, "nodes_soon", known)
    monkeypatch.setattr(module, "nodes", known)

    async def main(world: World) -> list[Line]:
        bus, stop = world.ports().bus, asyncio.Event()
        monkeypatch.setattr(bus, "reconnects", 0, raising=False)
        lines: list[Line] = []

        async def publish() -> None:
            subject = subjects.registry_event("c", "state", "p1")
            await bus.publish(subject, b"{")
            await bus.publish(subject, messages.encode(pump(PAUSED)))
            await world.until(lambda: len(lines) == 2, 10)
            stop.set()

        begun = asyncio.Event()
        watching = module.follow(
            cast(NatsBus, bus), "c", world.clock(), stop, lambda _: begun.set(), lines.append, print
        )
        task = asyncio.ensure_future(watching)
        await begun.wait()
        await publish()
        await task
        return lines

    missed, paused = run(main, 1)
    assert (missed.event, paused.event, paused.was) == (MISSED, CHANGED, ONLINE)
    assert "NodeStatus" in missed.why


def test_a_registry_that_is_silent_is_said_once_and_then_that_something_was_missed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers: list[Nodes | Unavailable] = [Unavailable("no answer"), Unavailable("no answer")]
    answers += [Nodes([pump(ONLINE)]), Unavailable("again none"), Nodes([pump(ONLINE)])]

    async def known(_bus: Bus, _cluster: str) -> Nodes:
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Unavailable):
            raise answer
        return answer

    async def soon(bus: Bus, cluster: str) -> Nodes:
        return await known(bus, cluster)

    monkeypatch.setattr(module, "nodes_soon", soon)
    monkeypatch.setattr(module, "nodes", known)
    begun, waits, lines = list[Nodes](), list[str](), list[Line]()

    async def main(world: World) -> None:
        bus, stop = world.ports().bus, asyncio.Event()
        monkeypatch.setattr(bus, "reconnects", 0, raising=False)
        watching = module.follow(
            cast(NatsBus, bus),
            "c",
            world.clock(),
            stop,
            begun.append,
            lines.append,
            waits.append,
        )
        task = asyncio.ensure_future(watching)
        await world.until(lambda: len(lines) == 2, 30, "both silences")
        stop.set()
        await task

    run(main, 1)
    assert waits == ["no answer"]  # who has begun to watch is not told why it can't
    assert len(begun) == 1
    assert [(line.event, line.why) for line in lines] == [
        (MISSED, "no answer"),
        (MISSED, "again none"),
    ]
