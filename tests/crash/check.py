"""A Pump starts on what a power loss left: is everything as promised, and does it go on from there?

Recovered is a prefix of what was handed in, in order, at least what was acked; the index says what
the log says; the next writes are acked, and survive the next power loss.
"""

from __future__ import annotations

import random
from typing import NamedTuple

from tests.crash.model import meaning
from tests.crash.pump import Machine, Pump, play
from tests.crash.recorder import Moment, Promise, Recorder, State, states
from tests.unit.pump.rig import commit, prewrite
from tidelog.timestamps import compose
from tidelog_proto.binlog_pb2 import Binlog
from tidelog_pump.config import PumpConfig

NEXT_MS = 1_795_219_100_000
"""Timestamps of what is written after a crash: above every other, below the wall clock."""


class Wrong(AssertionError):
    """What a state made of the promises."""


class Checked(NamedTuple):
    """The instants of the recovery and of what was written after it."""

    moments: list[Moment]


def check(state: State, config: PumpConfig) -> Checked:
    """Start, look, write, stop in the middle. Raises Wrong or what the Pump raises."""
    checked: Checked = play(lambda: _check(state, config))
    return checked


async def _check(state: State, config: PumpConfig) -> Checked:
    machine = Machine(config)
    state.place(machine)
    recorder = Recorder(machine, state.promise)
    pump = Pump(machine)
    try:
        await pump.started()
        await look(pump, state.promise)
        recorder.readable(await pump.log())
        await write_on(pump, recorder)
        await look(pump, recorder.promise)
    finally:
        await pump.kill()
    return Checked(recorder.moments)


async def look(pump: Pump, promise: Promise) -> None:
    """Compare log, index and sorter with what was promised and with each other."""
    log = await pump.log()
    handed, acked, purgeable = promise
    skipped = next((n for n in range(purgeable + 1) if list(handed[n : n + len(log)]) == log), None)
    if skipped is None:
        raise Wrong(f"the log is no part of what was handed in: {_brief(log)} of {_brief(handed)}")
    if skipped + len(log) < acked:
        raise Wrong(f"{acked} records were acked, {skipped + len(log)} are there")
    if purgeable:
        return
    expected = meaning(log)
    await pump.idle()
    found = {
        "commits": (pump.commits(), expected.commits),
        "open Prewrites": (pump.open_bounds(), expected.bounds),
    }
    resolved = await pump.resolved()
    found["W"] = ({0: resolved.high_ts}, {0: expected.high})
    if resolved.resolved_ts != expected.resolved:
        raise Wrong(f"resolved_ts {resolved.resolved_ts}, by the log {expected.resolved}")
    for what, (there, should) in found.items():
        if there != should:
            raise Wrong(f"{what}: {there} by the index, {should} by the log")


async def write_on(pump: Pump, recorder: Recorder) -> None:
    """A transaction, the Commit of an open one, and a second Commit that is stored no more."""
    before = meaning(recorder.handed) if not recorder.purgeable else None
    start = compose(NEXT_MS) + 10 * len(recorder.handed)
    await recorder.append(pump, [prewrite(start, b"after the crash" * 20)])
    ends = [commit(start, start + 1)]
    if before is not None and before.bounds:
        oldest = min(before.bounds)
        ends.append(commit(oldest, start + 2))
    await recorder.append(pump, ends)
    if before is not None and before.commits:
        commit_ts, start_ts = max(before.commits)
        outcomes = await pump.append([commit(start_ts, commit_ts)])
        if any(outcomes):
            raise Wrong(f"the second of two equal Commits: {outcomes}")
    await pump.idle()


def again(checked: Checked, rng: random.Random) -> State:
    """One power loss during the recovery or after it: every other time the most that may be lost
    at the end, when everything was acked."""
    if rng.random() < 0.3:
        return next(states(checked.moments[-1], rng, 2))
    moment = rng.choice(checked.moments)
    options = list(states(moment, rng, 12))
    return rng.choice(options)


def _brief(payloads: object) -> str:
    assert isinstance(payloads, (list, tuple))
    texts = []
    for payload in payloads[-6:]:
        binlog = Binlog.FromString(payload)
        texts.append(f"{binlog.tp}:{binlog.start_ts}:{binlog.commit_ts}")
    return f"{len(payloads)} [… {' '.join(texts)}]"
