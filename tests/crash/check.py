"""A Pump starts on what a power loss left: is everything as promised, and does it go on from there?

Recovered is a prefix of what was handed in, in order, at least what was acked; the index says what
the log says; the next writes are acked, and survive the next power loss.
"""

from __future__ import annotations

from tests.crash.model import Meaning, meaning
from tests.crash.pump import Machine, Pump, play
from tests.crash.recorder import Moment, Promise, Recorder, State, Wrong
from tests.unit.pump.rig import commit, prewrite
from tidelog.timestamps import compose
from tidelog_proto.binlog_pb2 import Binlog
from tidelog_pump.config import PumpConfig

NEXT_MS = 1_795_219_100_000
"""Timestamps of what is written after a crash: above every other of a short life, below the wall
clock."""


def check(state: State, config: PumpConfig) -> list[Moment]:
    """Start, look, write, stop in the middle. Returns the instants of the recovery and of what was
    written after it. Raises Wrong or what the Pump raises."""
    moments: list[Moment] = play(lambda: _check(state, config))
    return moments


async def _check(state: State, config: PumpConfig) -> list[Moment]:
    machine = Machine(config)
    state.place(machine)
    recorder = Recorder(machine, state.promise)
    pump = Pump(machine)
    try:
        await pump.started()
        recorder.readable(await look(pump, state.promise))
        await write_on(pump, recorder)
        await look(pump, recorder.promise)
    finally:
        await pump.kill()
    return recorder.moments


async def look(pump: Pump, promise: Promise) -> int:
    """Compare log, index and sorter with what was promised and with each other. Returns how much of
    what was handed in is there, with what was purged of it."""
    log, (handed, acked, _) = await pump.log(), promise
    begins = [0] if pump.purged.first == 0 else range(1, len(handed) + 1)
    begin = next((n for n in begins if list(handed[n : n + len(log)]) == log), None)
    if begin is None:
        raise Wrong(f"the log is no part of what was handed in: {_brief(log)} of {_brief(handed)}")
    end = begin + len(log)
    if end < acked:
        raise Wrong(f"{acked} records were acked, {end} are there")
    await pump.idle()
    await _compare(pump, meaning(handed[:end]))
    return end


async def _compare(pump: Pump, expected: Meaning) -> None:
    """What the index and the sorter say with what the log says. Behind a purge point W and bounds
    may be lower, since what was purged does not count any more."""
    purged = pump.purged.ts
    commits = {key: row for key, row in expected.commits.items() if key[0] > purged}
    if pump.commits() != commits:
        raise Wrong(f"commits: {sorted(pump.commits())} indexed, {sorted(commits)} in the log")
    bounds, resolved = pump.open_bounds(), await pump.resolved()
    if bounds.keys() != expected.bounds.keys():
        raise Wrong(f"open: {sorted(bounds)} indexed, {sorted(expected.bounds)} in the log")
    pairs = [
        (resolved.high_ts, expected.high),
        (resolved.resolved_ts, expected.resolved),
        *((bounds[start], bound) for start, bound in expected.bounds.items()),
    ]
    if any(there > should or (there < should and not purged) for there, should in pairs):
        raise Wrong(f"W, resolved_ts and bounds, there and by the log: {pairs}")


async def write_on(pump: Pump, recorder: Recorder) -> None:
    """A transaction, the Commit of an open one, and a second Commit that is stored no more."""
    before = meaning(recorder.handed)
    start = max(compose(NEXT_MS), before.high) + 10 * len(recorder.handed)
    await recorder.append(pump, [prewrite(start, b"after the crash" * 20)])
    ends = [commit(start, start + 1)]
    if before.bounds:
        oldest = min(before.bounds)
        ends.append(commit(oldest, start + 2))
    await recorder.append(pump, ends)
    if before.commits and max(before.commits)[0] > pump.purged.ts:
        commit_ts, start_ts = max(before.commits)
        outcomes = await pump.append([commit(start_ts, commit_ts)])
        if any(outcomes):
            raise Wrong(f"the second of two equal Commits: {outcomes}")
    await pump.idle()


def _brief(payloads: object) -> str:
    assert isinstance(payloads, (list, tuple))
    texts = []
    for payload in payloads[-6:]:
        binlog = Binlog.FromString(payload)
        texts.append(f"{binlog.tp}:{binlog.start_ts}:{binlog.commit_ts}")
    return f"{len(payloads)} [… {' '.join(texts)}]"
