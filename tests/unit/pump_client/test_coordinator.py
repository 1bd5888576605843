"""A coordinator's life on a bus."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from tests.unit.pump_client.fakes import LoopClock, MemoryBus
from tidelog.actor import Cell, Ref
from tidelog.errors import NoResponders
from tidelog.messages import TxnStatusReply, TxnStatusRequest, decode_reply, encode
from tidelog.ports import Bus
from tidelog.pump_client.client import PumpClient
from tidelog.pump_client.decisions.coordinator import Coordinator, CoordinatorMessage, Drain
from tidelog.pump_client.decisions.decisions import Decisions
from tidelog.pump_client.decisions.journal import Memory
from tidelog.pump_client.decisions.owner import prewrite_key
from tidelog.sim.loop import SimLoop, run_loop
from tidelog.subjects import txnstatus


def test_one_that_crashed_hears_no_question_any_more() -> None:
    """Else its subscription and the next life's would both take each."""

    async def main() -> None:
        bus = MemoryBus()
        ref: Ref[CoordinatorMessage] = Ref("coordinator")
        coordinator = Coordinator(
            cast(PumpClient, None),
            cast(Bus, bus),
            LoopClock(),
            Memory("me"),
            Decisions(),
            cluster="c",
            room=asyncio.Semaphore(1),
            ready=asyncio.Event(),
        )
        cell = Cell(ref, coordinator)
        life = asyncio.ensure_future(cell.run())
        await cell.started.wait()
        question = encode(TxnStatusRequest(5, prewrite_key("me")))
        answer = await bus.request(txnstatus("c"), question, timeout_s=10)
        assert decode_reply(answer.data, TxnStatusReply).state == "rolled_back"
        await ref.tell(Drain(cast(Any, None)))
        with pytest.raises(AttributeError):
            await life
        with pytest.raises(NoResponders):
            await bus.request(txnstatus("c"), question, timeout_s=10)

    run_loop(SimLoop(1), main())
