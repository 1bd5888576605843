"""Where a service's processor time goes, by py-spy (not among our requirements: put it in PATH).

py-spy looks into the process from outside, so the service itself carries nothing of it.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections import Counter
from pathlib import Path
from typing import NamedTuple

PER_SECOND = 200
LARGEST = 12
STOP_S = 30


class Costs(NamedTuple):
    """Samples in all, and by frame: within itself, and with what it calls."""

    samples: int
    own: Counter[str]
    whole: Counter[str]


def parse(collapsed: str) -> Costs:
    """Collapsed stacks, a line each: `outer;…;inner COUNT`."""
    own: Counter[str] = Counter()
    whole: Counter[str] = Counter()
    samples = 0
    for line in collapsed.splitlines():
        stack, _, count = line.rpartition(" ")
        frames = stack.split(";")
        samples += int(count)
        own[frames[-1]] += int(count)
        for frame in dict.fromkeys(frames):
            whole[frame] += int(count)
    return Costs(samples, own, whole)


def largest(costs: Costs) -> list[str]:
    """Lines for a person: shares by own time, then with callees."""
    lines = []
    for title, counts in (("own time", costs.own), ("with what it calls", costs.whole)):
        lines.append(title)
        lines += [
            f"  {count / costs.samples:6.1%}  {frame}"
            for frame, count in counts.most_common(LARGEST)
        ]
    return lines


class Profiler:
    """Watches the thread that holds the interpreter, from now on until `stop`."""

    def __init__(self, pid: int, target: Path) -> None:
        program = shutil.which("py-spy")
        assert program is not None, "the arguments are checked for it"
        target.parent.mkdir(parents=True, exist_ok=True)
        self.target = target
        options = ["--format", "raw", "--function", "--gil", "--rate", str(PER_SECOND)]
        self._process = subprocess.Popen(
            [program, "record", "--pid", str(pid), "--output", str(target), *options],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def stop(self) -> list[str]:
        """The largest costs; the stacks stay in `target`."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
        self._process.wait(STOP_S)
        return largest(parse(self.target.read_text(encoding="utf-8")))
