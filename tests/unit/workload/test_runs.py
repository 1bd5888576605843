"""What a workload says about transactions, of its own run and of those before it."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from tidelog import subjects
from tidelog.errors import Corrupt, DirectoryLocked, Unavailable, UnparsablePayload
from tidelog.messages import TxnStatusReply, TxnStatusRequest, decode_reply, encode
from tidelog.sim.world import World, run
from tidelog.supervisor import Supervisor
from tidelog.workload.outcomes import Outcomes
from tidelog.workload.runs import RECORD_FILE, first_of_all, take
from tidelog.workload.txn_status import TxnStatusServer


def test_runs_in_one_directory_know_where_the_first_began_and_exclude_each_other() -> None:
    async def main(world: World) -> None:
        disk = world.ports().disk
        assert await first_of_all(disk, 50) == 50
        assert await first_of_all(disk, 90) == 50
        lock = take(disk)
        with pytest.raises(DirectoryLocked):
            take(disk)
        lock.release()
        take(disk).release()

    run(main, 1)


def test_a_record_that_can_t_be_read_is_named_with_what_becomes_of_its_transactions() -> None:
    async def main(world: World) -> None:
        disk = world.ports().disk
        await disk.write_file(RECORD_FILE, b'{"first_ts": "soon"}')
        with pytest.raises(Corrupt, match=RECORD_FILE) as stopped:
            await first_of_all(disk, 50)
        assert "tidelog resolve" in stopped.value.hint

    run(main, 2)


class Late:
    """A bus that lets nobody serve at first."""

    def __init__(self, bus: Any, times: int) -> None:
        self._bus = bus
        self.times = times

    async def serve(self, *given: Any) -> Any:
        if self.times:
            self.times -= 1
            raise Unavailable("no server yet")
        return await self._bus.serve(*given)


def test_questions_are_answered_once_there_is_a_server_and_rubbish_by_a_typed_error() -> None:
    async def main(world: World) -> None:
        outcomes, bus = Outcomes(), Late(world.ports("workload").bus, 3)
        outcomes.begin(5)
        tree = Supervisor("test")
        tree.actor("status", lambda: TxnStatusServer(cast(Any, bus), world.clock(), "c", outcomes))
        stop = asyncio.Event()
        running = asyncio.create_task(tree.run(stop))
        await world.until(lambda: tree.ready, 10)
        assert bus.times == 0
        asker = world.ports("pump").bus

        async def answer(body: bytes) -> bytes:
            return bytes((await asker.request(subjects.txnstatus("c"), body, timeout_s=1)).data)

        with pytest.raises(UnparsablePayload):
            decode_reply(await answer(b"no question"), TxnStatusReply)
        asked = await answer(encode(TxnStatusRequest(5, force=True)))
        assert decode_reply(asked, TxnStatusReply).state == "rolled_back"
        assert tree.status()["status"]["asked"] == 2
        stop.set()
        await running
        with pytest.raises(Unavailable):
            await answer(encode(TxnStatusRequest(5)))

    run(main, 3)
