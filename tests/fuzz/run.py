"""Bad input to everything that takes input from outside (R9): `python -m tests.fuzz.run`.

    python -m tests.fuzz.run --inputs 200000 --seed 7     all surfaces, then a cluster's subjects
    python -m tests.fuzz.run --only applier --inputs 5000
    python -m tests.fuzz.run --only applier --replay FILE  one input again, as it was kept

Each input: a right answer or a typed error of the tree, within a second of CPU. After all of them
what was right before is understood as before, and the process has grown by 64 MiB at most. An input
that breaks this is kept as a file.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from tests.fuzz import (
    config_inputs,
    control_inputs,
    file_inputs,
    intruders,
    pump_inputs,
    reader_inputs,
    strangers,
)
from tests.fuzz.surface import Surface
from tests.last_line import last_line
from tests.quiet import quiet

INPUT_S = 1.0
GROWTH_BYTES = 64 << 20
SAMPLES = 40
"""Right inputs of each surface that are understood again at the end."""
INPUTS_A_HISTORY = 5000
CLUSTER_SHARE = 0.1
"""Of all inputs, to the subjects of a simulated cluster."""


class TooLong(BaseException):
    """One input took more than a second of CPU: no `except Exception` holds it."""


@dataclass
class Tally:
    inputs: int = 0
    worst_s: float = 0.0
    outcomes: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def surfaces() -> list[Surface]:
    quiet()
    rooms = (pump_inputs, control_inputs, reader_inputs, file_inputs, config_inputs)
    return [surface for room in rooms for surface in room.surfaces()]


def rss_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@contextmanager
def bounded() -> Iterator[None]:
    def stop(_number: int, _frame: FrameType | None) -> None:
        raise TooLong

    before = signal.signal(signal.SIGVTALRM, stop)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def fuzz(surface: Surface, inputs: int, seed: int) -> Tally:
    """So many inputs; what was wrong is told with the place where its input is kept."""
    rng = random.Random(f"{seed}/{surface.name}")
    right = surface.seeds[:SAMPLES]
    before = [surface.outcome(one) for one in right]
    tally = Tally()
    with bounded():
        for _ in range(inputs):
            _one(surface, surface.input(rng), tally)
    if [surface.outcome(one) for one in right] != before:
        tally.wrong.append(f"{surface.name}: what was right before is understood otherwise now")
    return tally


def _one(surface: Surface, data: bytes, tally: Tally) -> None:
    tally.inputs += 1
    began = time.process_time()
    signal.setitimer(signal.ITIMER_VIRTUAL, INPUT_S)
    try:
        outcome = surface.outcome(data)
    except TooLong:
        tally.wrong.append(f"{surface.name}: more than {INPUT_S} s, {_kept(surface, data)}")
        return
    except Exception as error:  # noqa: BLE001 (that is what is looked for)
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        tally.wrong.append(f"{surface.name}: {error!r:.200}, {_kept(surface, data)}")
        return
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    tally.worst_s = max(tally.worst_s, time.process_time() - began)
    tally.outcomes[outcome.__name__ if isinstance(outcome, type) else "taken"] += 1


def _kept(surface: Surface, data: bytes) -> str:
    with tempfile.NamedTemporaryFile(prefix="fuzz-", suffix=".input", delete=False) as file:
        file.write(data)
    return f"again: python -m tests.fuzz.run --only {surface.name!r} --replay {file.name}"


def run(all_surfaces: Sequence[Surface], inputs: int, seed: int) -> Tally:
    """Shares of `inputs` by surface. Prints what became of them."""
    total, weight = Tally(), sum(surface.share for surface in all_surfaces)
    for surface in all_surfaces:
        fuzz(surface, min(200, inputs), seed + 1)  # warm: caches are not growth
    grown_from = rss_bytes()
    for surface in all_surfaces:
        tally = fuzz(surface, -(-inputs * surface.share // weight), seed)
        said = ", ".join(f"{count} {name}" for name, count in tally.outcomes.most_common(4))
        print(f"{surface.name:13} {tally.inputs:7} inputs, worst {tally.worst_s:.3f} s: {said}")
        total.inputs += tally.inputs
        total.wrong += tally.wrong
        total.outcomes += tally.outcomes
        total.worst_s = max(total.worst_s, tally.worst_s)
    growth = rss_bytes() - grown_from
    print(f"grew by {growth >> 20} MiB; the worst input took {total.worst_s:.3f} s of CPU")
    if growth > GROWTH_BYTES:
        total.wrong.append(f"the process grew by {growth} bytes")
    return total


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--only", help="one surface, by its name, or `cluster`")
    parser.add_argument("--replay", type=Path, help="one input of it")
    options = parser.parse_args(argv)
    found = [one for one in surfaces() if options.only in (None, one.name)]
    if options.replay is not None:
        print(found[0].outcome(options.replay.read_bytes()))
        return 0
    print(f"seed {options.seed}", flush=True)
    total = Tally()
    cluster = int(options.inputs * (CLUSTER_SHARE if found else 1))
    if found:
        total = run(found, options.inputs - (cluster if options.only is None else 0), options.seed)
    if options.only in (None, "cluster"):
        for at in range(0, cluster, strangers.MOST):
            talked = strangers.talk(min(strangers.MOST, cluster - at), options.seed + at)
            total.inputs += talked.inputs
            total.wrong += talked.wrong
            print(f"{'cluster':13} {talked.inputs:7} inputs: {talked.said}")
            print(talked.ends)
        histories = max(1, options.inputs // INPUTS_A_HISTORY)
        first = options.seed % 10_000
        outcomes, wrong_ones = intruders.intrusions(range(first, first + histories))
        total.inputs += histories
        total.wrong += wrong_ones
        ends = ", ".join(f"{count} {what}" for what, count in outcomes.most_common())
        print(f"{'stream':13} {histories:7} histories with a stranger's message in it: {ends}")
    for wrong in total.wrong[:20]:
        print("WRONG", wrong)
    if total.inputs < options.inputs:
        total.wrong.append(f"only {total.inputs} inputs")
    print(last_line("bad input", total.inputs, f"seed {options.seed}", wrong=len(total.wrong)))
    return 1 if total.wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
