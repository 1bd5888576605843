"""The supervisor ends the sorter first: who asks it just then waits for its own fresh instance, and
is no crash of its own."""

from __future__ import annotations

from unittest.mock import AsyncMock, Mock

import pytest

from tests.unit.pump_client.fakes import LoopClock
from tidelog.actor import Ref
from tidelog.sim.loop import SimLoop, run_loop
from tidelog_pump.late.verifier import Verifier
from tidelog_pump.retention.gc_actor import Gc
from tidelog_pump.sort.resolver import Resolver


def verifier() -> Verifier:
    """Without a sorter."""
    made = Verifier.__new__(Verifier)
    made._sorter = Ref("sorter")
    made._note = AsyncMock()  # type: ignore[method-assign]
    return made


def gc() -> Gc:
    made = Gc.__new__(Gc)
    made._sorter, made._clock = Ref("sorter"), LoopClock()
    return made


@pytest.mark.parametrize("loop", [verifier()._listen, gc()._keep_time])
def test_loops_end_without_a_word(loop: object) -> None:
    async def main() -> None:
        assert callable(loop)
        await loop()

    run_loop(SimLoop(1), main())


def test_a_resolver_asks_nobody_and_forgets_nothing() -> None:
    status = Mock()
    nothing = Mock()
    resolver = Resolver(
        LoopClock(),
        nothing,
        nothing,
        status,
        Ref("sorter"),
        Ref("writer"),
        cluster_id=7,
        resolve_after_s=1,
        txn_timeout_s=1,
    )
    resolver._questions[5] = question = Mock()
    run_loop(SimLoop(1), resolver.on_tick())
    assert resolver._questions == {5: question}
    assert not status.method_calls
