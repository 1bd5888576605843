"""Does anything grow? By what was sampled of the processes in a whole soak."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from tests.soak.slopes import Sample, Slope, is_flat, slope, warm
from tests.soak.so_far import SoFar
from tests.soak.watch import BLOCKS, MIB, NATS

RSS_MIB = 512.0
"""No process of a short run has more."""
SLACK = 24.0
"""Descriptors that come and go: connections, files that are being read."""
LONG_S = 1800.0
"""From so long a run on, slopes count; and that of a single life that is so long, by itself: across
lives what a process collects while it runs shows in none of them."""
SETTLED_S = 600.0
"""By then the stream of a long run is full."""
FULL_S = 1200.0
"""By then so are the bounded memories of one life: what became of the last 262,144 transactions."""
LIMIT = 0.01
"""Of the mean, an hour."""
HEAD = f"{'process':10} {'lives':>5} {'RSS MiB':>8} {'most':>6} {'RSS slope':>20} {'fds':>5} most"


def judged(so_far: SoFar, warm_up_s: float, blocks: int) -> tuple[list[str], list[str]]:
    """Prints the table; what grows, and of what that can't be told. `blocks`: bytes that were taken
    off nats-server's memory."""
    wrong: list[str] = []
    unsure: list[str] = []
    long = so_far.seconds >= LONG_S
    print(HEAD)
    for name, samples in sorted(so_far.rss.items()):
        memory = warm(samples, warm_up_s, SETTLED_S if long else 0.0)
        counts = warm(so_far.descriptors[name], warm_up_s)
        if not memory:
            continue
        line = slope(memory)
        most = _row(name, str(so_far.lives(name)), line, memory, counts)
        if not long and most > RSS_MIB:
            wrong.append(f"{name} has {most:.0f} MiB")
        wrong += _flat(name, counts)
        if long and not line.tells(LIMIT):
            unsure.append(name)
        if long and line.above(LIMIT):
            wrong.append(f"{name} grows by {line}")
        grows, untold = _lives(name, samples, so_far.descriptors[name])
        wrong += grows
        unsure += untold
    print(f"?: too unsure to tell growth by {LIMIT:.0%} an hour from none; a longer run may")
    print(f"{NATS}: without the {blocks / MIB:.1f} MiB of its buckets' newest files")
    if so_far.kills and not blocks:
        wrong.append(f"{NATS} keeps its buckets elsewhere than at {BLOCKS}")
    return wrong, unsure


def _lives(
    name: str, rss: Sequence[Sample], descriptors: Sequence[Sample]
) -> tuple[list[str], list[str]]:
    """Those that are long, each by itself: what grows; and of what that can't be told."""
    wrong, unsure = list[str](), list[str]()
    held = {life: list(some) for life, some in groupby(descriptors, lambda one: one.life)}
    for life, some in groupby(rss, lambda one: one.life):
        memory = warm(list(some), FULL_S)
        if not memory or memory[-1].age_s < LONG_S:
            continue
        counts, line = warm(held[life], FULL_S), slope(memory)
        _row(name, f"no. {life}", line, memory, counts)
        wrong += _flat(f"{name}, life {life},", counts)
        if line.above(LIMIT):
            wrong.append(f"{name}, life {life}, grows by {line}")
        elif not line.tells(LIMIT):
            unsure.append(f"{name}'s life {life} ({line})")
    return wrong, unsure


def _row(
    name: str, lives: str, line: Slope, memory: Sequence[Sample], counts: Sequence[Sample]
) -> float:
    """Prints it. The most memory."""
    most, fds = max(s.value for s in memory), [s.value for s in counts]
    print(
        f"{name:10} {lives:>5} {line.mean:8.0f} {most:6.0f} {line!s:>20}"
        f"{' ' if line.tells(LIMIT) else '?'}{sum(fds) / len(fds):5.0f} {max(fds):.0f}"
    )
    return most


def _flat(name: str, counts: Sequence[Sample]) -> list[str]:
    if is_flat(counts, SLACK):
        return []
    return [f"{name} holds more and more descriptors: {max(one.value for one in counts):.0f}"]
