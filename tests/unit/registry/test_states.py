"""Every state and everything that can happen in it, for Pumps, Drainers and Appliers, by the calls
that the directory makes."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from tidelog.errors import BadInput, NotFound, Refused
from tidelog.messages import (
    APPLIER,
    CLOSING,
    DRAINER,
    JOINING,
    OFFLINE,
    ONLINE,
    PAUSED,
    PAUSING,
    PUMP,
    NodeStatus,
    Order,
    StateReply,
    StateRequest,
)
from tidelog_registry.nodes.cluster import Cluster, nobody
from tidelog_registry.nodes.effects import Changed, Effect, Forget, Write
from tidelog_registry.nodes.node_state import ACTIONS, STATES, follows

NODE = "n"
NOW = 100.0
LATER = NOW + 20
REFUSED = "-"
NO_ORDER = Order()


def status(
    kind: str, state: str = "", *, alive: bool = True, order: Order = NO_ORDER
) -> NodeStatus:
    return NodeStatus(NODE, kind=kind, state=state, isAlive=alive, feed="f", order=order)


class Scene:
    """A settled cluster with one node of this kind, brought into a state, and a Drainer beside it
    that takes no Pump while the node is joining."""

    def __init__(self, kind: str, state: str) -> None:
        self.kind = kind
        self.now = NOW
        self.cluster = Cluster({}, 0.0, fresh=True, lost=False)
        self.beside = NodeStatus("beside", kind=DRAINER, isAlive=True, feed="f")
        if kind == PUMP:
            self.cluster.register(self.beside, NOW)
        self.register()
        if state != JOINING and kind == PUMP:
            self.cluster.joins.acked("beside", NODE, NOW)
            self.record()
        if state in (PAUSING, PAUSED):
            self.wish("pause")
        if state == PAUSED:
            self.says(PAUSED)
        if state in (CLOSING, OFFLINE):
            self.wish("offline")
        if state == OFFLINE:
            self.drained()
        assert self.state == state
        self.order = self.cluster.nodes[kind, NODE].order

    @property
    def state(self) -> str:
        return self.cluster.nodes[self.kind, NODE].state

    def record(self) -> None:
        node = self.cluster.nodes[PUMP, NODE]
        while node.join is not None and node.join.phase in ("recording", "opening"):
            self.cluster.joins.recorded(node.member(node.join.opens), self.now)

    def register(self) -> list[Effect]:
        _, effects = self.cluster.register(status(self.kind), self.now)
        if self.kind == PUMP:
            self.record()
        return effects

    def says(self, state: str, *, alive: bool = True, order: Order = NO_ORDER) -> list[Effect]:
        said = status(self.kind, state, alive=alive, order=order)
        return self.cluster.heartbeat(said, self.now, nobody)[1]

    def drained(self) -> list[Effect]:
        return self.says(OFFLINE, order=Order("offline"))

    def drained_with_a_reader_behind(self) -> list[Effect]:
        said = status(self.kind, OFFLINE, order=Order("offline"))
        return self.cluster.heartbeat(said, self.now, lambda ts: ["somebody"])[1]

    def wish(self, action: str, *, accept_loss: bool = False) -> list[Effect]:
        wish = StateRequest(NODE, action, accept_loss)
        return self.cluster.operate(wish, self.now, {})[1]

    def silence(self) -> list[Effect]:
        self.now = LATER
        if self.kind == PUMP:
            self.cluster.register(self.beside, self.now)
        return self.cluster.tick(self.now)

    def silence_and(self, action: str, *, accept_loss: bool = False) -> list[Effect]:
        return self.silence() + self.wish(action, accept_loss=accept_loss)


EVENTS: dict[str, Callable[[Scene], list[Effect]]] = {
    "registers": Scene.register,
    "stops": lambda scene: scene.says(PAUSED, alive=False),
    "lives": lambda scene: scene.says(scene.state, order=Order("offline")),
    "says it is paused": lambda scene: scene.says(PAUSED),
    "says it is drained": Scene.drained,
    "drained, not read": Scene.drained_with_a_reader_behind,
    "says it has left": lambda scene: scene.says(OFFLINE, order=Order("", 9)),
    "falls silent": Scene.silence,
    "pause": lambda scene: scene.wish("pause"),
    "resume": lambda scene: scene.wish("resume"),
    "offline": lambda scene: scene.wish("offline"),
    "accepted loss": lambda scene: scene.wish("offline", accept_loss=True),
    "silent, pause": lambda scene: scene.silence_and("pause"),
    "silent, resume": lambda scene: scene.silence_and("resume"),
    "silent, offline": lambda scene: scene.silence_and("offline"),
    "silent, accepted loss": lambda scene: scene.silence_and("offline", accept_loss=True),
}

PUMPS = """
                      joining online  pausing paused  closing offline
registers             joining online  pausing paused  closing joining
stops                 joining paused  paused  paused  closing offline
lives                 joining online  pausing paused  closing offline
says it is paused     joining online  paused  paused  closing offline
says it is drained    joining online  pausing paused  offline offline
drained, not read     joining online  pausing paused  closing offline
says it has left      joining offline offline offline offline offline
falls silent          offline online  pausing paused  closing offline
pause                 joining pausing pausing paused  -       -
resume                joining online  online  online  -       -
offline               joining closing closing closing closing offline
accepted loss         -       -       -       -       offline offline
silent, pause         -       pausing pausing paused  -       -
silent, resume        -       online  online  online  -       -
silent, offline       offline closing closing closing closing offline
silent, accepted loss offline offline offline offline offline offline
"""

READERS = """
                      online  pausing paused  closing offline
registers             online  pausing paused  closing online
stops                 offline offline offline offline offline
lives                 online  pausing paused  closing offline
says it is paused     online  paused  paused  closing offline
says it is drained    online  pausing paused  offline offline
drained, not read     online  pausing paused  offline offline
says it has left      offline offline offline offline offline
falls silent          online  pausing paused  closing offline
pause                 pausing pausing paused  -       -
resume                online  online  online  -       -
offline               closing closing closing closing offline
accepted loss         closing closing closing closing offline
silent, pause         pausing pausing paused  -       -
silent, resume        online  online  online  -       -
silent, offline       offline offline offline offline offline
silent, accepted loss offline offline offline offline offline
"""
"""Nobody waits for a reader's word of what it has read: it is the reader."""


def cases(kind: str, table: str) -> list[tuple[str, str, str, str]]:
    head, *lines = table.strip("\n").splitlines()
    states = head.split()
    found = []
    for line in lines:
        event, cells = line[:22].strip(), line[22:].split()
        found += [(kind, state, event, cell) for state, cell in zip(states, cells, strict=True)]
    return found


CASES = cases(PUMP, PUMPS) + cases(DRAINER, READERS) + cases(APPLIER, READERS)


@pytest.mark.parametrize(("kind", "state", "event", "expected"), CASES)
def test_what_follows(kind: str, state: str, event: str, expected: str) -> None:
    scene = Scene(kind, state)
    if expected == REFUSED:
        with pytest.raises(Refused):
            EVENTS[event](scene)
        return
    effects = EVENTS[event](scene)
    assert scene.state == expected
    told = [effect.status.state for effect in effects if isinstance(effect, Changed)]
    written = [effect.member for effect in effects if isinstance(effect, Write)]
    if expected != state:
        assert told[-1] == expected, "every transition is published"
    if kind != PUMP:
        assert not written, "readers are not in the membership bucket"
    elif expected != state:
        assert written[-1].state == expected, "and a Pump's is recorded"
    if scene.cluster.order(kind, NODE) != scene.order and kind == PUMP:
        assert written[-1].order == scene.cluster.order(kind, NODE), "so is what was asked"


def test_the_table_is_whole() -> None:
    assert {(kind, state, event) for kind, state, event, _ in CASES} == {
        (kind, state, event)
        for kind in (PUMP, DRAINER, APPLIER)
        for state in STATES
        for event in EVENTS
        if kind == PUMP or state != JOINING
    }


@pytest.mark.parametrize("kind", [DRAINER, APPLIER])
@pytest.mark.parametrize("event", ["says it is drained", "stops"])
def test_a_reader_that_an_operator_took_out_is_no_consumer_any_more(kind: str, event: str) -> None:
    forgotten = [e for e in EVENTS[event](Scene(kind, CLOSING)) if isinstance(e, Forget)]
    assert [(e.status.nodeId, e.last) for e in forgotten] == [(NODE, True)]
    assert not [e for e in EVENTS["stops"](Scene(kind, ONLINE)) if isinstance(e, Forget)]


def test_a_silent_applier_goes_with_its_consumer_and_a_silent_drainer_without() -> None:
    for kind, count in ((APPLIER, 1), (DRAINER, 0)):
        effects = EVENTS["silent, offline"](Scene(kind, ONLINE))
        assert len([effect for effect in effects if isinstance(effect, Forget)]) == count


def test_an_applier_that_stopped_in_order_is_let_go_of_by_an_order_alone() -> None:
    scene = Scene(APPLIER, ONLINE)
    assert not [e for e in EVENTS["stops"](scene) if isinstance(e, Forget)]
    assert scene.state == OFFLINE
    assert len([e for e in scene.wish("offline") if isinstance(e, Forget)]) == 1


def test_the_feed_stays_while_another_drainer_is_there() -> None:
    scene = Scene(DRAINER, CLOSING)
    scene.cluster.register(scene.beside, scene.now)
    assert [e.last for e in scene.drained() if isinstance(e, Forget)] == [False]


def test_only_what_an_operator_may_ask_for_is_an_action() -> None:
    scene = Scene(PUMP, ONLINE)
    for action in ("", "returns", "drained", "removed", "close"):
        with pytest.raises(BadInput, match="unknown action"):
            scene.wish(action)
    with pytest.raises(NotFound):
        scene.cluster.operate(StateRequest("nobody", "pause"), NOW, {})
    with pytest.raises(BadInput, match="loses nothing"):
        scene.wish("pause", accept_loss=True)
    for action in ACTIONS:
        assert follows(PUMP, ONLINE, action) in STATES


def test_an_accepted_loss_names_what_may_be_lost_and_can_be_tried_dry() -> None:
    scene = Scene(PUMP, ONLINE)
    said = NodeStatus(
        NODE, state=ONLINE, isAlive=True, highTS=90, maxCommitTS=80, resolvedTS=70, open=2
    )
    scene.cluster.heartbeat(said, NOW)
    scene.silence()
    read = {
        "consumer drainer of feed f": 75,
        "consumer a of feed f": 60,
        "consumer b of feed f": 95,
    }

    def ask(*, dry_run: bool) -> tuple[StateReply, list[Effect]]:
        wish = StateRequest(NODE, "offline", accept_loss=True, dry_run=dry_run)
        return scene.cluster.operate(wish, LATER, read)

    dry, effects = ask(dry_run=True)
    assert (scene.state, effects) == (ONLINE, [])
    reply, effects = ask(dry_run=False)
    assert reply.may_lose == dry.may_lose
    text = "\n".join(reply.may_lose)
    for words in ("20 s ago", "80", "70", "90", "2 Prewrites", "a of feed f has read up to 60"):
        assert words in text
    assert "above 60 may be lost" in text
    assert "consumer b" not in text
    (entry,) = [effect.member for effect in effects if isinstance(effect, Write)]
    assert (entry.state, entry.high_ts, entry.read_ts) == (OFFLINE, 80, 60)
    published = [effect.status for effect in effects if isinstance(effect, Changed)][-1]
    assert "above 60 may be lost" in published.detail["lost"]


def test_a_restart_at_another_address_is_told_though_the_state_stays() -> None:
    """A client that writes by gRPC would else go on to the old one until it asks by itself."""
    scene = Scene(PUMP, ONLINE)
    at = msgspec.structs.replace(status(PUMP), host="10.0.0.1:8250")
    assert [e.status.host for e in told(scene, at)] == ["10.0.0.1:8250"]
    assert not told(scene, at)
    assert [e.status.host for e in told(scene, status(PUMP))] == [""]


def told(scene: Scene, said: NodeStatus) -> list[Changed]:
    _, effects = scene.cluster.register(said, scene.now)
    assert scene.state == ONLINE
    return [effect for effect in effects if isinstance(effect, Changed)]


def test_a_closing_pump_says_for_whom_it_waits() -> None:
    scene = Scene(PUMP, CLOSING)
    scene.drained_with_a_reader_behind()
    assert scene.cluster.statuses()[-1].detail["closing"] == "waits for somebody"
    scene.silence()
    assert "which is unreachable" in scene.cluster.statuses()[-1].detail["closing"]
    scene.drained()
    assert "closing" not in scene.cluster.statuses()[-1].detail


def test_once_a_pump_is_offline_nobody_shows_for_whom_it_waited() -> None:
    scene = Scene(PUMP, CLOSING)
    waits = {"closing": "waits for readers to pass 7", "retention": "stays"}
    said = status(PUMP, OFFLINE, order=Order("offline"))
    said = msgspec.structs.replace(said, detail=waits)
    _, effects = scene.cluster.heartbeat(said, scene.now, lambda ts: ["somebody"])
    assert scene.cluster.statuses()[-1].detail["closing"] == "waits for somebody"
    _, effects = scene.cluster.heartbeat(said, scene.now, nobody)
    (told,) = [effect.status for effect in effects if isinstance(effect, Changed)]
    assert (told.state, told.detail) == (OFFLINE, {"retention": "stays"})


@pytest.mark.parametrize("state", [CLOSING, OFFLINE])
def test_who_refuses_says_how_such_a_node_comes_back(state: str) -> None:
    with pytest.raises(Refused) as refused:
        Scene(PUMP, state).wish("resume")
    assert "start it again" in refused.value.hint
