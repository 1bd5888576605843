"""Both index stores against a dict: what an IndexStore promises, over reopenings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.unit.pump.driven import QuietTrace
from tests.unit.pump.steps import CountedMachine, play
from tidelog.ports import IndexStore
from tidelog.real import index as real_index
from tidelog.real.index import RocksIndex
from tidelog.sim.index import SimIndex, SimIndexFile
from tidelog.sim.life import Life

SIM_STEPS, ROCKS_STEPS = 5_000, 5_000
REOPENED_ONCE_IN = 24
"""RocksDB takes a thousand times as long for it as for the rest."""
EVERYTHING = (b"", b"\xff" * 4)

keys = st.binary(min_size=1, max_size=3).map(lambda key: bytes(byte % 5 for byte in key))
values = st.binary(max_size=8)


class IndexMachine(CountedMachine):
    opened: ClassVar[Callable[[], IndexStore]]
    store: ClassVar[IndexStore]

    def __init__(self) -> None:
        super().__init__()
        type(self).store.delete_range(*EVERYTHING)
        self.model: dict[bytes, bytes] = {}

    @rule(
        puts=st.lists(st.tuples(keys, values), max_size=12),
        deletes=st.lists(keys, max_size=6),
    )
    def write(self, puts: list[tuple[bytes, bytes]], deletes: list[bytes]) -> None:
        self.store.write(puts, deletes)
        self.model.update(puts)
        for key in deletes:
            self.model.pop(key, None)

    @rule(key=keys)
    def get(self, key: bytes) -> None:
        assert self.store.get(key) == self.model.get(key)

    @rule(start=keys, stop=keys, limit=st.integers(0, 20))
    def scan(self, start: bytes, stop: bytes, limit: int) -> None:
        expected = sorted(item for item in self.model.items() if start <= item[0] < stop)
        assert self.store.scan(start, stop, limit) == expected[:limit]

    @rule()
    def scan_all(self) -> None:
        assert self.store.scan(*EVERYTHING, 1 << 20) == sorted(self.model.items())

    @rule(start=keys, stop=keys)
    def delete_range(self, start: bytes, stop: bytes) -> None:
        self.store.delete_range(start, stop)
        self.model = {k: v for k, v in self.model.items() if not start <= k < stop}

    @rule(dice=st.integers(1, REOPENED_ONCE_IN))
    def reopen(self, dice: int) -> None:
        if dice == 1:
            self.store.close()
            type(self).store = type(self).opened()

    def teardown(self) -> None:
        self.scan_all()


class SimMachine(IndexMachine):
    """In the simulator."""


class RocksMachine(IndexMachine):
    """On RocksDB, whose batches are so small here that a write goes in pieces."""


def test_the_simulated_index_is_a_dict() -> None:
    file, trace = SimIndexFile(), QuietTrace(lambda: 0.0)
    SimMachine.opened = staticmethod(lambda: SimIndex(file, Life("p"), trace))
    SimMachine.store = SimMachine.opened()
    play(SimMachine, at_least=SIM_STEPS)


def test_the_rocksdb_index_is_a_dict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(real_index, "BATCH_ENTRIES", 5)
    RocksMachine.opened = staticmethod(lambda: RocksIndex(tmp_path / "kv"))
    RocksMachine.store = RocksMachine.opened()
    try:
        play(RocksMachine, at_least=ROCKS_STEPS)
    finally:
        RocksMachine.store.close()
