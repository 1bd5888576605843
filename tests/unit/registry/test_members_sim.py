"""The membership bucket's writer against lost tails, late writes and a second writer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial

import msgspec
import pytest

from tidelog import subjects
from tidelog.actor import Ref
from tidelog.errors import Stopped
from tidelog.kv import Bucket
from tidelog.membership import Member
from tidelog.messages import JOINING, OFFLINE, ONLINE
from tidelog.ports import Ports
from tidelog.sealed import unseal
from tidelog.sim import World, run
from tidelog.supervisor import Supervisor
from tidelog_registry.config import RegistryConfig
from tidelog_registry.lease.lease import Lease
from tidelog_registry.lease.tenure import AnotherRegistry, Tenure
from tidelog_registry.members import (
    COPY,
    H_EPOCH,
    H_WRITER,
    Copy,
    Look,
    Members,
    Record,
    View,
    Written,
)

Steps = Callable[[World, Ports, "Writer"], Coroutine[None, None, None]]
CLUSTER = "default"


class Writer:
    def __init__(self, ref: Ref[Record | Look]) -> None:
        self._ref = ref

    async def write(self, node: str, state: str) -> Written:
        return await self._ref.ask(lambda reply: Record(Member(node, state, 1), reply))

    async def look(self) -> View:
        return await self._ref.ask(Look)


def _play(steps: Steps) -> None:
    async def main(world: World) -> None:
        ports = world.node("registry").ports()
        tree, tenure = Supervisor("registry"), Tenure(ports.clock)
        tree.actor("lease", lambda: Lease(RegistryConfig(cluster=CLUSTER), ports, tenure))
        ref = tree.actor("members", lambda: Members(ports, CLUSTER, tenure))
        stop = asyncio.Event()
        running = world.loop.create_task(tree.run(stop))
        await world.until(lambda: ref.alive, 5, "the bucket's writer")
        work = world.loop.create_task(steps(world, ports, Writer(ref)))
        await asyncio.wait([running, work], return_when=asyncio.FIRST_COMPLETED)
        stop.set()
        await running
        await work

    run(main, 1)


def _states(view: View) -> dict[str, str]:
    return {node: member.state for node, member in view.members.items()}


async def _put(ports: Ports, member: Member, writer: str, epoch: int = 0) -> None:
    bucket = Bucket(ports.bus, subjects.members_bucket(CLUSTER))
    signature = {H_WRITER: writer, H_EPOCH: str(epoch)}
    await bucket.put(member.node, msgspec.json.encode(member), headers=signature)


def test_a_lost_tail_is_noticed_although_the_next_write_makes_up_for_its_length() -> None:
    """Seed 1285: a tombstone was lost, another entry took its sequence."""

    async def steps(world: World, ports: Ports, writer: Writer) -> None:
        await writer.write("pump-1", JOINING)
        await writer.write("pump-2", JOINING)
        older = world.nats.copy_store()
        await writer.write("pump-1", OFFLINE)
        created = world.nats.streams["KV_" + subjects.members_bucket(CLUSTER)].created
        world.nats.roll_back(older)
        written = await writer.write("pump-2", ONLINE)
        assert written.losses == 1
        assert _states(await writer.look()) == {"pump-1": OFFLINE, "pump-2": ONLINE}
        stream = world.nats.streams["KV_" + subjects.members_bucket(CLUSTER)]
        assert stream.created != created, "readers see that it is another bucket"

    _play(steps)


def test_a_bucket_of_before_the_one_that_was_lost_says_nothing() -> None:
    """Seed 3246: the store came back as it had been before the bucket was made anew, and with it a
    tombstone of a Pump that had joined since. It was let go, and what it held was not read."""

    async def steps(world: World, ports: Ports, writer: Writer) -> None:
        name = "KV_" + subjects.members_bucket(CLUSTER)
        await writer.write("pump-1", OFFLINE)
        older = world.nats.copy_store()
        await writer.write("pump-1", ONLINE)
        await ports.bus.stream_delete(name)
        await world.until(lambda: name in world.nats.streams, 5, "another bucket")
        await world.sleep(3)
        world.nats.roll_back(older)
        await world.sleep(3)
        view = await writer.look()
        assert (_states(view), view.losses) == ({"pump-1": ONLINE}, 2)
        entries, _ = await Bucket(ports.bus, subjects.members_bucket(CLUSTER)).entries()
        assert msgspec.json.decode(entries["pump-1"].value, type=Member).state == ONLINE
        assert world.nats.streams[name].created > older[name].created, "readers see that"

    _play(steps)


def test_a_late_write_of_an_earlier_life_is_taken_over() -> None:
    async def steps(world: World, ports: Ports, writer: Writer) -> None:
        await writer.write("pump-1", ONLINE)
        copy = unseal(ports.disk.read_file(COPY), Copy)
        await _put(ports, Member("pump-1", OFFLINE, 1), copy.writer)
        await world.sleep(5)
        assert _states(await writer.look()) == {"pump-1": OFFLINE}
        await writer.write("pump-1", JOINING)

    _play(steps)


def test_a_second_registry_is_a_typed_stop() -> None:
    async def steps(world: World, ports: Ports, writer: Writer) -> None:
        await writer.write("pump-1", ONLINE)
        await _put(ports, Member("pump-1", OFFLINE, 1), "another directory's")
        await writer.write("pump-1", JOINING)

    with pytest.raises(Stopped, match="somebody else writes the membership of pump-1"):
        _play(steps)


def test_one_that_leads_later_on_a_copy_of_the_directory_is_a_second_registry() -> None:
    async def steps(world: World, ports: Ports, writer: Writer) -> None:
        await writer.write("pump-1", ONLINE)
        copy = unseal(ports.disk.read_file(COPY), Copy)
        await _put(ports, Member("pump-1", OFFLINE, 1), copy.writer, epoch=2)
        await writer.write("pump-1", JOINING)

    with pytest.raises(AnotherRegistry, match="somebody else writes the membership of pump-1"):
        _play(steps)


def test_after_another_writer_began_the_server_refuses_the_first_ones_writes() -> None:
    """Whatever their clocks say of the lease: both believe to hold it."""

    class Believed(Tenure):
        def holds(self) -> bool:
            return True

    async def main(world: World) -> None:
        stop, running, writers = asyncio.Event(), [], []
        for name in ("r1", "r2"):
            ports = world.node(name).ports()
            tree = Supervisor(name)
            ref = tree.actor("members", partial(Members, ports, CLUSTER, Believed(ports.clock)))
            running.append(world.loop.create_task(tree.run(stop)))
            await world.until(lambda ref=ref: ref.alive, 5, name)  # type: ignore[misc]
            writers.append((Writer(ref), ports))
            if name == "r1":
                await writers[0][0].write("pump-1", ONLINE)
        first = world.loop.create_task(writers[0][0].write("pump-2", JOINING))
        await world.sleep(3)
        assert not first.done() or first.exception() is not None, "acked"
        entries, _ = await Bucket(writers[1][1].bus, subjects.members_bucket(CLUSTER)).entries()
        assert set(entries) == {"pump-1"}
        stop.set()
        await asyncio.wait([first, *running])

    run(main, 1)
