"""The value log against a list: appends, rotations, stops, kills, failed calls, power losses.

A failed or interrupted call ends the process, as in the Pump. What the next one finds is what was
acked, then a prefix of the batch that was under way.
"""

from __future__ import annotations

from typing import NamedTuple
from unittest.mock import MagicMock

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from tests.unit.pump.driven import Machine, drive, framed, interrupted, scanned
from tests.unit.pump.rig import prewrite
from tests.unit.pump.steps import CountedMachine, play
from tidelog import record, synced
from tidelog.errors import DiskFull, IoFailed, Purged
from tidelog_pump.log import catalog, segments
from tidelog_pump.log.catalog import ClosedSegment
from tidelog_pump.log.files import name
from tidelog_pump.log.place import Pointer
from tidelog_pump.log.segments import Segments

LOG_STEPS = 16_000
sizes = st.lists(st.sampled_from([0, 1, 40, 300, 900]), min_size=1, max_size=4)
moments = st.integers(1, 8)


class Stored(NamedTuple):
    pointer: Pointer
    payload: bytes
    ts: int


class LogMachine(CountedMachine):
    log: Segments

    @initialize(
        segment_bytes=st.sampled_from([600, 2_000, 1 << 30]),
        seed=st.integers(0, 999),
        sync=st.booleans(),
        large=st.sampled_from([0, 1_000, 1 << 30]),
    )
    def begin(self, segment_bytes: int, seed: int, large: int, *, sync: bool) -> None:
        self.machine = Machine(seed, segment_bytes, sync=sync)
        self.large = large
        self.held: list[Stored] = []
        self.gone: list[Stored] = []
        self.synced = 0
        self.ts = 0
        self.start()

    def start(self) -> None:
        self.log = self.machine.segments()
        drive(self.log.open())
        self.synced = len(self.held)

    def batch(self, sizes: list[int]) -> list[tuple[bytes, int]]:
        found = []
        for size in sizes:
            self.ts += 1
            found.append((prewrite(self.ts, bytes([self.ts % 251]) * size), self.ts))
        return found

    async def appended(self, batch: list[tuple[bytes, int]]) -> None:
        frames = [framed(payload) for payload, _ in batch]
        await self.log.rotate(sum(map(len, frames)))
        fid, offset = await self.log.append(frames, batch[-1][1])
        for (payload, ts), frame in zip(batch, frames, strict=True):
            self.held.append(Stored(Pointer(fid, offset), payload, ts))
            offset += len(frame)

    def recovered(self, batch: list[tuple[bytes, int]], *, power_lost: bool = False) -> None:
        """Start again; what is found becomes what is held, if it may be."""
        before = list(self.held)
        safe = self.safe_count() if power_lost else len(before)
        if power_lost:
            self.machine.disk.crash()
        self.start()
        found, error = scanned(self.log, self.log.start)
        assert error is None
        written = dict([*((r.payload, r.ts) for r in before), *batch])
        self.held = [Stored(pointer, payload, written[payload]) for pointer, payload in found]
        known = self.held[: len(before)]
        assert known == before[: len(known)]
        assert len(known) >= safe
        self.synced = len(self.held)
        rest = [(stored.payload, stored.ts) for stored in self.held[len(before) :]]
        assert rest == batch[: len(rest)]

    def safe_count(self) -> int:
        """How many no power loss takes: all that are acked; without sync-log those that the last
        start found, and those in closed segments."""
        if self.machine.sync:
            return len(self.held)
        last = max(path for path in self.machine.files() if path.endswith(".vlog"))
        return max(self.synced, sum(name(r.pointer.fid) < last for r in self.held))

    @rule(sizes=sizes)
    def append(self, sizes: list[int]) -> None:
        drive(self.appended(self.batch(sizes)))

    @rule(sizes=sizes, nth=moments, kind=st.sampled_from(["io", "full", "short"]))
    def append_while_a_call_fails(self, sizes: list[int], nth: int, kind: str) -> None:
        batch = self.batch(sizes)
        before = len(self.held)
        self.machine.disk.fail_nth(nth, kind)
        try:
            drive(self.appended(batch))
        except (IoFailed, DiskFull):
            assert len(self.held) == before
            self.machine.disk.clear_faults()
            self.recovered(batch)
        else:
            self.machine.disk.clear_faults()

    @rule(sizes=sizes, turns=moments, power_lost=st.booleans())
    def die_while_appending(self, sizes: list[int], turns: int, *, power_lost: bool) -> None:
        batch = self.batch(sizes)
        if interrupted(self.appended(batch), turns):
            self.recovered(batch, power_lost=power_lost)

    @rule(power_lost=st.booleans())
    def die(self, *, power_lost: bool) -> None:
        self.recovered([], power_lost=power_lost)

    @rule()
    def stop_and_start(self) -> None:
        last, end = self.log.end
        drive(self.log.finish())
        self.start()
        assert self.log.end in (Pointer(last, end), Pointer(last + 1, 0))

    @rule()
    def a_start_that_dies_too(self) -> None:
        self.recovered([])
        for turns in range(1, 6):
            self.log = self.machine.segments()
            interrupted(self.log.open(), turns)
        self.recovered([])

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def scan_from_somewhere_to_somewhere(self, data: st.DataObject) -> None:
        places = [stored.pointer for stored in self.held] + [self.log.readable]
        first = data.draw(st.integers(0, len(places) - 1))
        last = data.draw(st.integers(first, len(places) - 1))
        found: list[tuple[Pointer, bytes]] = []

        async def main() -> None:
            async for step in self.log.scan(places[first], places[last]):
                found.extend((pointer, bytes(payload)) for pointer, payload in step)

        drive(main())
        assert found == [(r.pointer, r.payload) for r in self.held[first:last]]

    @rule()
    def read_each(self) -> None:
        for stored in self.held:
            assert self.log.payload(stored.pointer) == stored.payload
            window = self.log.window(stored.pointer, 16 + len(stored.payload))
            assert window == framed(stored.payload)
        for stored in self.gone:
            assert is_purged(self.log, stored.pointer)

    @precondition(lambda self: len(self.log.fids) > 1)
    @rule(data=st.data(), turns=st.integers(1, 30), ends=st.sampled_from(["", "dies", "power"]))
    def remove(self, data: st.DataObject, turns: int, ends: str) -> None:
        going = data.draw(st.sets(st.sampled_from(self.log.fids[:-1])))
        safe = self.held[: self.safe_count()]
        work = self.log.remove(going)
        dead = interrupted(work, turns) if ends else drive(work)
        if ends and dead:
            if ends == "power":
                self.machine.disk.crash()
            self.start()
        else:
            assert not going & {*self.log.fids}
        there = {*self.log.fids}
        assert {r.pointer.fid for r in self.held} - there <= going
        self.gone += [r for r in self.held if r.pointer.fid not in there]
        self.held = [r for r in self.held if r.pointer.fid in there]
        if dead and ends == "power":
            # Of a process without sync-log the power may have taken the newest records as well.
            self.held = self.held[: len(scanned(self.log, self.log.start)[0])]
        kept = [r for r in safe if r.pointer.fid in there]
        assert self.held[: len(kept)] == kept
        self.synced = len(self.held) if dead else len(kept)

    @precondition(lambda self: len(self.log.fids) > 1)
    @rule(data=st.data(), turns=st.integers(1, 30), more=st.booleans())
    def remove_in_vain_then_again(self, data: st.DataObject, turns: int, *, more: bool) -> None:
        """A gc is cancelled and the log stays open for the next one."""
        going = data.draw(st.sets(st.sampled_from(self.log.fids[:-1])))
        interrupted(self.log.remove(going), turns)
        if more:
            drive(self.appended(self.batch([300, 300])))
        safe = self.held[: self.safe_count()]
        drive(self.log.remove(going))
        assert not going & {*self.log.fids}
        self.gone += [r for r in self.held if r.pointer.fid in going]
        self.held = [r for r in self.held if r.pointer.fid not in going]
        self.synced = sum(r.pointer.fid not in going for r in safe)

    @invariant()
    def nothing_else_is_there(self) -> None:
        if not hasattr(self, "held"):
            return
        found, error = scanned(self.log, self.log.start)
        assert error is None
        assert found == [(r.pointer, r.payload) for r in self.held]
        assert self.log.status()["damaged_segments"] == {}
        assert self.log.closed() == [self.expected(fid) for fid in self.log.fids[:-1]]

    def expected(self, fid: int) -> ClosedSegment:
        inside = [r for r in self.held if r.pointer.fid == fid]
        last = inside[-1]
        end = last.pointer.offset + record.HEADER_BYTES + len(last.payload)
        return ClosedSegment(fid, last.ts, end + record.FOOTER_BYTES)


def is_purged(log: Segments, pointer: Pointer) -> bool:
    try:
        log.payload(pointer)
    except Purged:
        return True
    return False


def test_the_log_is_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (segments, catalog, synced):
        monkeypatch.setattr(module, "log", MagicMock())
    play(LogMachine, at_least=LOG_STEPS)
