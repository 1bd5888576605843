"""What is written into PD's etcd, and what is made of what others wrote there."""

from __future__ import annotations

import msgspec
import pytest

from tidelog.messages import JOINING, OFFLINE, ONLINE, PAUSED, PAUSING, NodeStatus
from tidelog_registry.pd.entries import Entry, Found, PdEntries, Plan, Write, entry_of

KEY = "pumps/p1"
P1 = NodeStatus("p1", "h:8250", ONLINE, True, maxCommitTS=7, updateTS=9)
D1 = NodeStatus("d1", kind="drainer", state=ONLINE, updateTS=9)
WRITTEN_BY_THE_ORIGINAL = (
    b'{"nodeId":"pump1","host":"127.0.0.1:18251","state":"online","isAlive":false,"score":0,'
    b'"label":null,"maxCommitTS":470615696095313921,"updateTS":470615696619339777}'
)


class Etcd:
    def __init__(self) -> None:
        self.keys: dict[str, Found] = {}
        self.shadows: dict[str, Found] = {}
        self.revision = 0
        self.entries = PdEntries()

    def put(self, name: str, value: bytes) -> None:
        self.revision += 1
        self.keys[name] = Found(value, self.revision)

    def plan(self, *nodes: NodeStatus) -> Plan:
        return self.entries.plan(nodes, self.keys, self.shadows)

    def look(self, *nodes: NodeStatus) -> Plan:
        plan = self.plan(*nodes)
        for write in plan.writes:
            self.write(write)
        return plan

    def write(self, write: Write) -> None:
        assert self.keys.get(write.name, Found(b"", 0)).revision == write.revision
        self.put(write.name, msgspec.json.encode(write.entry))
        self.shadows[write.name] = Found(msgspec.json.encode(write.shadow), self.revision)

    def restart(self) -> None:
        """Of the registry."""
        self.entries = PdEntries()

    def operator(self, state: str) -> None:
        said = msgspec.json.decode(self.keys[KEY].value, type=Entry)
        self.put(KEY, msgspec.json.encode(msgspec.structs.replace(said, state=state)))


def test_an_entry_has_the_originals_bytes() -> None:
    said = msgspec.json.decode(WRITTEN_BY_THE_ORIGINAL, type=NodeStatus)
    assert msgspec.json.encode(entry_of(said)) == WRITTEN_BY_THE_ORIGINAL


def test_news_are_written_and_nothing_else_is() -> None:
    etcd = Etcd()
    assert [write.name for write in etcd.look(P1).writes] == [KEY]
    assert etcd.look(P1) == Plan()
    assert etcd.look(msgspec.structs.replace(P1, state=PAUSED)).writes[0].entry.state == PAUSED
    assert etcd.look(D1).writes[0].name == "drainers/d1"
    assert etcd.look(NodeStatus("p2", state=JOINING), NodeStatus("a", kind="applier")) == Plan()
    assert etcd.look(msgspec.structs.replace(P1, nodeId="rack/p1")) == Plan()


@pytest.mark.parametrize(
    ("state", "action"),
    [("pausing", "pause"), ("paused", "pause"), ("closing", "offline"), ("offline", "offline")],
)
def test_an_operators_state_is_one_order_and_the_truth_stands_again(
    state: str, action: str
) -> None:
    etcd = Etcd()
    etcd.look(P1)
    etcd.operator(state)
    plan = etcd.look(P1)
    assert [(wish.node, wish.action, wish.accept_loss) for wish in plan.wishes] == [
        ("p1", action, False)
    ]
    assert msgspec.json.decode(etcd.keys[KEY].value, type=Entry) == entry_of(P1)
    assert etcd.look(P1) == Plan()


def test_a_write_of_ours_whose_answer_got_lost_is_no_operators() -> None:
    """Nor is it one to the next registry."""
    etcd = Etcd()
    etcd.look(P1)
    (write,) = etcd.plan(msgspec.structs.replace(P1, state=PAUSING)).writes
    etcd.write(write)
    etcd.restart()
    assert etcd.look(msgspec.structs.replace(P1, state=ONLINE)).wishes == []


def test_an_order_is_given_once_though_the_answer_could_not_be_written() -> None:
    etcd = Etcd()
    etcd.look(P1)
    etcd.operator("paused")
    assert len(etcd.plan(P1).wishes) == 1
    again = etcd.look(P1)
    assert (again.wishes, len(again.writes)) == ([], 1)


@pytest.mark.parametrize("state", [ONLINE, PAUSED])
def test_an_order_of_the_time_without_a_registry_is_found_by_the_next(state: str) -> None:
    etcd = Etcd()
    etcd.look(P1)
    etcd.operator(state)
    etcd.restart()
    plan = etcd.look(P1)
    assert [wish.action for wish in plan.wishes] == (["pause"] if state == PAUSED else [])
    etcd.restart()
    assert etcd.look(P1) == Plan()


def test_what_was_there_before_us_is_no_order() -> None:
    """The original's Pump of this address and id was paused when it stopped."""
    etcd = Etcd()
    there = msgspec.structs.replace(entry_of(P1), state=PAUSED)
    etcd.put(KEY, msgspec.json.encode(there))
    plan = etcd.look(P1)
    assert (plan.old, plan.wishes, len(plan.writes)) == ([KEY], [], 1)
    assert etcd.look(P1) == Plan()


@pytest.mark.parametrize("value", [b"{", b'{"nodeId":"p1","host":"h:8250","state":"dancing"}'])
def test_what_means_nothing_is_put_right(value: bytes) -> None:
    etcd = Etcd()
    etcd.look(P1)
    etcd.put(KEY, value)
    assert etcd.look(P1).odd == [KEY]
    assert etcd.look(P1) == Plan()
    del etcd.keys[KEY]
    assert etcd.look(P1).odd == [KEY]


@pytest.mark.parametrize("shown", [False, True], ids=["before ours was shown", "over ours"])
def test_another_node_of_that_id_is_left_alone_until_it_is_offline(*, shown: bool) -> None:
    """Its end is no order to ours."""
    etcd = Etcd()
    if shown:
        etcd.look(P1)
    other = msgspec.structs.replace(entry_of(P1), host="elsewhere:8250")
    etcd.put(KEY, msgspec.json.encode(other))
    assert etcd.look(P1) == Plan(foreign=[KEY])
    etcd.operator(OFFLINE)
    plan = etcd.look(P1)
    assert (plan.old, plan.wishes, [one.entry for one in plan.writes]) == (
        [KEY],
        [],
        [entry_of(P1)],
    )
    assert etcd.look(P1) == Plan()


def test_a_node_of_ours_that_moved_is_ours() -> None:
    """Also where it did while no registry ran."""
    etcd = Etcd()
    etcd.look(P1)
    etcd.restart()
    moved = msgspec.structs.replace(P1, host="elsewhere:8250")
    plan = etcd.look(moved)
    assert (plan.foreign, [write.entry.host for write in plan.writes]) == ([], ["elsewhere:8250"])
    etcd.put(KEY, msgspec.json.encode(msgspec.structs.replace(entry_of(P1), host="third:8250")))
    assert etcd.look(moved) == Plan(foreign=[KEY]), "somebody took the id since"
