"""Two directories, or two copies of one, with one node id: the second is refused."""

from __future__ import annotations

import msgspec
import pytest

from tidelog.errors import Conflict, NodeIdTaken
from tidelog.membership import Member
from tidelog.messages import JOINING, OFFLINE, ONLINE, PAUSED, PUMP, NodeStatus
from tidelog_registry.nodes.cluster import Cluster
from tidelog_registry.nodes.effects import Write

OURS = NodeStatus("p", isAlive=True, epoch=4, mark="m", life="x")


def known(**change: object) -> Cluster:
    """A cluster that has heard of p."""
    cluster = Cluster({}, 0.0, fresh=True, lost=False)
    _, effects = cluster.register(msgspec.structs.replace(OURS, **change), 0.0)
    writes = [effect.member for effect in effects if isinstance(effect, Write)]
    assert [member.mark for member in writes] == ["m"]
    return cluster


def other(**change: object) -> NodeStatus:
    return msgspec.structs.replace(OURS, **change)


@pytest.mark.parametrize("epoch", [1, 4, 9])
def test_another_directory_is_refused_whatever_its_epoch(epoch: int) -> None:
    cluster = known()
    with pytest.raises(NodeIdTaken, match="another data directory"):
        cluster.register(other(mark="n", epoch=epoch), 1.0)
    with pytest.raises(NodeIdTaken):
        cluster.heartbeat(other(mark="n", epoch=epoch), 1.0)


def test_the_same_directory_comes_back_in_its_next_epoch() -> None:
    known().register(other(epoch=5, life="y"), 1.0)


def test_an_older_epoch_is_refused() -> None:
    with pytest.raises(Conflict):
        known().register(other(epoch=3, life="y"), 1.0)


def test_a_copy_that_counted_to_the_same_epoch_is_refused() -> None:
    with pytest.raises(NodeIdTaken, match="two copies"):
        known().register(other(life="y"), 1.0)


def test_the_mark_outlives_the_registry_in_the_bucket() -> None:
    member = Member("p", PAUSED, 4, mark="m")
    cluster = Cluster({"p": member}, 0.0, fresh=False, lost=False)
    with pytest.raises(NodeIdTaken):
        cluster.register(other(mark="n"), 1.0)
    cluster.register(other(epoch=5), 1.0)


def test_what_a_tombstone_let_go_another_directory_may_take() -> None:
    member = Member("p", OFFLINE, 4, 100, mark="m")
    cluster = Cluster({"p": member}, 0.0, fresh=False, lost=False)
    cluster.register(other(mark="n", epoch=1), 1.0)
    with pytest.raises(NodeIdTaken):
        cluster.heartbeat(other(mark="m", epoch=4, state=ONLINE), 2.0)


def test_a_directory_without_a_mark_is_of_an_older_release() -> None:
    known().register(other(mark="", epoch=5), 1.0)
    cluster = Cluster({"p": Member("p", PAUSED, 4)}, 0.0, fresh=False, lost=False)
    cluster.register(OURS, 1.0)


def test_what_a_pump_left_with_is_remembered_when_another_takes_its_name() -> None:
    """Its tombstone is gone then, and only that said that nobody can read this any more."""
    for read_ts, gone_ts in ((None, 100), (70, 70)):
        left = Member("p", OFFLINE, 4, 100, mark="m", read_ts=read_ts)
        cluster = Cluster({"p": left}, 0.0, fresh=False, lost=False)
        _, effects = cluster.register(other(mark="n", epoch=1), 1.0)
        (joining,) = [effect.member for effect in effects if isinstance(effect, Write)]
        assert (joining.state, joining.left_ts, joining.gone_ts) == (JOINING, gone_ts, gone_ts)
        again = Cluster({"p": joining}, 0.0, fresh=False, lost=False)
        assert again.nodes[PUMP, "p"].member().left_ts == gone_ts, "over a registry's restart"


def test_one_that_comes_back_with_its_directory_has_what_it_left_with() -> None:
    left = Member("p", OFFLINE, 4, 100, mark="m")
    cluster = Cluster({"p": left}, 0.0, fresh=False, lost=False)
    _, effects = cluster.register(other(epoch=5), 1.0)
    (joining,) = [effect.member for effect in effects if isinstance(effect, Write)]
    assert (joining.state, joining.gone_ts) == (JOINING, 0)
