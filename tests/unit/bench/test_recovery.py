"""What stands beside a process that was killed is its start alone."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from bench import recovery
from bench.recovery import Victim, starting


def test_a_start_begins_once_the_process_has_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0

    async def after(seconds: float) -> None:
        nonlocal now
        now += seconds

    monkeypatch.setattr(recovery, "time", SimpleNamespace(perf_counter=lambda: now))
    victim = Victim("pump", lambda: after(9), stop=lambda: after(4), start=lambda: after(0.5))
    assert asyncio.run(starting(victim)) == 0.5
    assert now == 104.5
