"""An adopter whose looks, marks and questions fail: it tells, tries again, its own Pump serves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.unit.pump.rig import Client, commit
from tests.unit.pump.test_adoption_sim import GRACE_S, Cluster, down_to_one
from tidelog import ask_registry
from tidelog.errors import IoFailed, Stuck, Unavailable
from tidelog.messages import OFFLINE, ONLINE
from tidelog.sim import World, run
from tidelog.sim.disk import MountedDisk
from tidelog_pump.slots import adopter
from tidelog_pump.slots.adopter import SLOTS, Adopter
from tidelog_pump.slots.claim import TURN_FILE


class Broken:
    """Calls of a disk that fail with IoFailed while it is on, where they name `what`."""

    def __init__(self, patch: pytest.MonkeyPatch, call: str, what: str) -> None:
        self.on = False
        self.met = 0
        real: Callable[..., Any] = getattr(MountedDisk, call)

        def maybe(disk: MountedDisk, path: str, *rest: Any, **more: Any) -> Any:
            if self.on and path == what:
                self.met += 1
                raise IoFailed(f"{call} {path}: a bad sector")
            return real(disk, path, *rest, **more)

        patch.setattr(MountedDisk, call, maybe)


def failures(cluster: Cluster) -> dict[str, str]:
    found: dict[str, str] = cluster.adopter(cluster.running[0])["failures"]
    return found


@pytest.mark.parametrize(
    ("call", "path", "told"),
    [
        ("listdir", "", SLOTS),
        ("lock", "slot-1/.lock", "slot-1"),
        ("write_file", "slot-1/adopted", "slot-1"),
    ],
)
def test_a_directory_that_can_t_be_used_is_told_until_it_can_and_then_drained(
    monkeypatch: pytest.MonkeyPatch, call: str, path: str, told: str
) -> None:
    broken = Broken(monkeypatch, call, path)

    async def main(world: World) -> None:
        cluster, names, _, _ = await down_to_one(world)
        await cluster.stop(leave=1)
        broken.on = True
        await world.until(lambda: told in failures(cluster), 2 * GRACE_S)
        assert failures(cluster)[told] == f"IoFailed: {call} {path}: a bad sector"
        await cluster.until_told(names["slot-0"], "a bad sector")
        await world.sleep(2 * GRACE_S)
        assert broken.met > 1, "it was tried once"
        assert cluster.adopter(cluster.running[0])["adopted"] == ""
        await Client(cluster.bus, names["slot-0"]).until_online()
        broken.on = False
        await cluster.until_adopted("slot-1", within_s=600)
        await world.until(lambda: not failures(cluster), 20)

    run(main, 21)


def test_a_slot_whose_pump_is_unknown_is_told_by_that_pump() -> None:
    async def main(world: World) -> None:
        cluster, _, _, _ = await down_to_one(world)
        await cluster.stop(leave=1)
        await world.ports("machine").disk.write_file("slot-1/.node", b"nobody's")
        await world.until(lambda: "slot-1" in failures(cluster), 3 * GRACE_S)
        assert failures(cluster)["slot-1"].startswith("Corrupt: slot-1/.node")

    run(main, 22)


def test_nobody_is_adopted_while_another_has_the_turn_or_the_registry_is_silent() -> None:
    async def main(world: World) -> None:
        cluster, _, _, _ = await down_to_one(world)
        await cluster.stop(leave=1)
        registry = world.node("registry-node")
        await registry.stop()
        await world.sleep(3 * GRACE_S)
        one = cluster.running[0]
        assert cluster.adopter(one)["adopted"] == ""
        turn = world.ports("machine").disk.lock(TURN_FILE)
        registry.restart()
        await world.sleep(3 * GRACE_S)
        assert cluster.adopter(one)["adopted"] == ""
        turn.release()
        await cluster.until_adopted("slot-1")

    run(main, 23)


def test_a_wish_to_be_offline_that_is_refused_is_made_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refused: list[str] = []
    real = ask_registry.ask

    async def ask(bus: Any, cluster: str, verb: str, *rest: Any, **more: Any) -> Any:
        if verb == "state" and len(refused) < 3:
            refused.append(verb)
            raise Unavailable("the registry is between two lives")
        return await real(bus, cluster, verb, *rest, **more)

    monkeypatch.setattr(ask_registry, "ask", ask)

    async def main(world: World) -> None:
        cluster, names, _, open_ts = await down_to_one(world)
        gone = names["slot-1"]
        await Client(cluster.bus, gone).done(commit(open_ts, open_ts + 1))
        await cluster.stop(leave=1)
        await cluster.until_adopted("slot-1")
        await cluster.read_up_to(open_ts + 1)
        await cluster.until_state(gone, OFFLINE)
        assert len(refused) == 3
        assert (await cluster.nodes())[names["slot-0"]].state == ONLINE

    run(main, 24)


def test_marks_that_can_t_be_deleted_don_t_keep_the_slot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who wants it finds it unlocked, and serves it."""
    failed: list[str] = []

    async def unmark(_disk: object, name: str) -> None:
        failed.append(name)
        raise IoFailed("a bad sector")

    async def main(world: World) -> None:
        cluster, names, _, _ = await down_to_one(world)
        await cluster.stop(leave=1)
        await cluster.until_adopted("slot-1")
        monkeypatch.setattr(adopter, "unmark", unmark)
        await cluster.start(2)
        assert failed == ["slot-1"]
        assert {slot: node for slot, (node, _) in cluster.identities().items()} == names

    run(main, 25)


def test_an_adopted_pump_whose_thread_hangs_ends_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A fresh instance of it must not meet that thread, nor may another Pump: the slot's lock goes
    with the process, no sooner."""
    given_back: list[str] = []

    async def hangs(*_: object) -> None:
        raise Stuck("a call of indexer runs for 60 s")

    async def give_back(_: Adopter, name: str, __: object) -> None:
        given_back.append(name)

    monkeypatch.setattr(Adopter, "_run", hangs)
    monkeypatch.setattr(Adopter, "_give_back", give_back)

    async def main(world: World) -> None:
        cluster, _, _, _ = await down_to_one(world)
        await cluster.stop(leave=1)
        one = cluster.running[0]
        await world.until(lambda: bool(one.failures), 3 * GRACE_S)
        assert isinstance(one.failures[0], Stuck)
        assert given_back == []
        assert world.ports("machine").disk.lock("slot-1/.lock")

    run(main, 26)


def test_an_index_that_fails_and_can_t_be_closed_either_is_not_ours() -> None:
    """Our own Pump goes on, the slot's lock is free, and it is drained later."""

    async def main(world: World) -> None:
        cluster, names, _, open_ts = await down_to_one(world)
        await cluster.stop(leave=1)
        own = await cluster.until_adopted("slot-1")
        await world.sleep(1)  # Virtual: its edges come last.
        own.indexes["slot-1/kv"].failing = True
        with capture_logs() as logs:
            await Client(cluster.bus, names["slot-1"]).write(commit(open_ts, open_ts + 1))
            await world.until(lambda: "slot-1" in failures(cluster), 2 * GRACE_S)
            assert "the index fails" in failures(cluster)["slot-1"]
            await world.until(lambda: cluster.adopter(own)["adopted"] == "", 20)
        assert [one["slot"] for one in logs if "not closed in order" in one["event"]] == ["slot-1"]
        world.ports("machine").disk.lock("slot-1/.lock").release()
        await cluster.until_adopted("slot-1", within_s=600)
        await world.until(lambda: not failures(cluster), 20)
        assert (own.starts, own.failures) == (1, [])

    run(main, 1)
