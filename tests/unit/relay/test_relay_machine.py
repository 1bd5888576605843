"""The relay log against a list: batches, large ones in pieces, attempts given up, purges, stops,
kills, failed calls, power losses.

A failed or interrupted call ends the process. What the next one finds is what was handed on, then a
prefix of the batches that were under way.
"""

from __future__ import annotations

from unittest.mock import MagicMock

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from tests.unit.pump.driven import Machine, drive, interrupted
from tests.unit.pump.steps import CountedMachine, play
from tests.unit.relay.relay_rig import STRUCTURES, opened, piece, read, rows, whole
from tidelog import synced
from tidelog.errors import DiskFull, IoFailed
from tidelog.relay import Incoming, RelayLog, opening

RELAY_STEPS = 8_000
Held = list[tuple[int, list[bytes]]]
sizes = st.lists(st.sampled_from([2, 40, 300, 900]), min_size=1, max_size=3)
batches = st.lists(st.tuples(sizes, st.booleans()), min_size=1, max_size=3)
"""Of each batch its bodies' sizes, and whether it is large: then each body is a piece."""
moments = st.integers(1, 9)


class RelayMachine(CountedMachine):
    log: RelayLog

    @initialize(max_file_bytes=st.sampled_from([500, 3_000, 1 << 30]), seed=st.integers(0, 999))
    def begin(self, max_file_bytes: int, seed: int) -> None:
        self.machine = Machine(seed)
        self.max_file_bytes = max_file_bytes
        self.held: Held = []
        self.applied = 0
        self.ts = 0
        self.attempts = 0
        self.begun: tuple[str, list[bytes]] | None = None
        self.start()

    def start(self) -> None:
        self.begun = None
        self.log = opened(self.machine, self.applied, self.max_file_bytes)

    def bodies(self, sizes: list[int]) -> list[bytes]:
        return [rows(self.ts, size, which) for which, size in enumerate(sizes)]

    def attempt(self) -> str:
        self.attempts += 1
        return f"a{self.attempts}"

    def made(self, batches: list[tuple[list[int], bool]]) -> tuple[list[Incoming], Held]:
        """What to append, and what it comes to."""
        items: list[Incoming] = []
        expected: Held = []
        for sizes, is_large in batches:
            before, self.ts = self.ts, self.ts + 2
            bodies, attempt = self.bodies(sizes), self.attempt()
            expected.append((self.ts, bodies))
            if not is_large:
                items.append(whole(self.ts, before, *bodies))
                continue
            items += [piece(number, body, attempt=attempt) for number, body in enumerate(bodies)]
            items.append(whole(self.ts, before, pieces=len(bodies), attempt=attempt))
        return items, expected

    def recovered(self, coming: Held, *, power_lost: bool) -> None:
        """Start again; what is found becomes what is held, if it may be."""
        if power_lost:
            self.machine.disk.crash()
        self.start()
        found = drive(read(self.log, self.applied))
        held = [one for one in self.held if one[0] > self.applied]
        assert found[: len(held)] == held
        more = found[len(held) :]
        assert more == coming[: len(more)]
        self.held = found
        self.ts = max(self.ts, self.log.end)
        assert self.log.end == (found[-1][0] if found else self.applied)

    @rule(batches=batches)
    def append(self, batches: list[tuple[list[int], bool]]) -> None:
        items, expected = self.made(batches)
        handed = drive(self.log.append(items, STRUCTURES))
        assert [one.commit_ts for one in handed] == [ts for ts, _ in expected]
        self.held += expected
        self.begun = None

    @rule(sizes=sizes)
    def begin_a_large_one(self, sizes: list[int]) -> None:
        """Perhaps while another one has begun, which is given up by that."""
        attempt, bodies = self.attempt(), self.bodies(sizes)
        items = [piece(number, body, attempt=attempt) for number, body in enumerate(bodies)]
        assert drive(self.log.append(items, STRUCTURES)) == []
        self.begun = attempt, bodies

    @precondition(lambda self: self.begun)
    @rule(sizes=sizes, more=batches)
    def end_it(self, sizes: list[int], more: list[tuple[list[int], bool]]) -> None:
        assert self.begun is not None
        attempt, bodies = self.begun
        added = self.bodies(sizes)
        items: list[Incoming] = [
            piece(len(bodies) + number, body, attempt=attempt) for number, body in enumerate(added)
        ]
        before, self.ts = self.ts, self.ts + 1
        count = len(bodies) + len(added)
        items.append(whole(self.ts, before, pieces=count, attempt=attempt))
        following, expected = self.made(more)
        drive(self.log.append([*items, *following], STRUCTURES))
        self.held += [(self.ts - 2 * len(more), bodies + added), *expected]
        self.begun = None

    @rule(batches=batches, nth=moments, kind=st.sampled_from(["io", "full", "short", "lost"]))
    def append_while_a_call_fails(
        self, batches: list[tuple[list[int], bool]], nth: int, kind: str
    ) -> None:
        items, expected = self.made(batches)
        self.machine.disk.fail_nth(nth, kind)
        try:
            drive(self.log.append(items, STRUCTURES))
        except (IoFailed, DiskFull):
            self.machine.disk.clear_faults()
            self.recovered(expected, power_lost=False)
        else:
            self.machine.disk.clear_faults()
            self.held += expected
            self.begun = None

    @rule(batches=batches, turns=moments, power_lost=st.booleans())
    def die_while_appending(
        self, batches: list[tuple[list[int], bool]], turns: int, *, power_lost: bool
    ) -> None:
        items, expected = self.made(batches)
        if interrupted(self.log.append(items, STRUCTURES), turns):
            self.recovered(expected, power_lost=power_lost)
        else:
            self.held += expected
            self.begun = None

    @rule(power_lost=st.booleans())
    def die(self, *, power_lost: bool) -> None:
        self.recovered([], power_lost=power_lost)

    @rule(turns=moments, power_lost=st.booleans())
    def a_start_that_dies_too(self, turns: int, *, power_lost: bool) -> None:
        self.recovered([], power_lost=power_lost)
        log = RelayLog(self.machine.mount(), "relay", feed="shop", cluster_id=7)
        interrupted(log.open(self.applied), turns)
        self.recovered([], power_lost=power_lost)

    @rule(ahead=st.integers(1, 5))
    def the_checkpoint_is_ahead(self, ahead: int) -> None:
        """By watermarks: nothing was committed between."""
        self.applied = self.ts = self.log.end + ahead
        self.held = []
        self.start()
        assert self.log.end == self.applied

    @precondition(lambda self: self.held)
    @rule(data=st.data(), turns=st.integers(1, 30), ends=st.sampled_from(["", "dies", "power"]))
    def purge(self, data: st.DataObject, turns: int, ends: str) -> None:
        below = data.draw(st.sampled_from([ts for ts, _ in self.held]))
        self.applied = below
        self.held = [one for one in self.held if one[0] > below]
        work = self.log.purge(below)
        if not ends:
            drive(work)
        elif interrupted(work, turns):
            self.recovered([], power_lost=ends == "power")

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def read_from_somewhere(self, data: st.DataObject) -> None:
        after = data.draw(st.integers(self.applied, self.held[-1][0]))
        assert drive(read(self.log, after)) == [one for one in self.held if one[0] > after]

    @invariant()
    def nothing_else_is_there(self) -> None:
        if hasattr(self, "held"):
            assert drive(read(self.log, self.applied)) == self.held
            assert self.log.end == (self.held[-1][0] if self.held else self.applied)


def test_the_relay_is_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (opening, synced):
        monkeypatch.setattr(module, "log", MagicMock())
    play(RelayMachine, at_least=RELAY_STEPS)
