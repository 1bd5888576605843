"""Does anything grow? By what was sampled of the processes in a whole soak."""

from __future__ import annotations

from tests.soak.slopes import Slope, is_flat, slope, warm
from tests.soak.so_far import SoFar
from tests.soak.watch import BLOCKS, MIB, NATS

RSS_MIB = 512.0
"""No process of a short run has more."""
SLACK = 24.0
"""Descriptors that come and go: connections, files that are being read."""
LONG_S = 1800.0
"""From so long a run on, slopes count."""
SETTLED_S = 600.0
"""By then the stream of a long run is full."""
LIMIT = 0.01
"""Of the mean, an hour."""


def judged(so_far: SoFar, warm_up_s: float, blocks: int) -> list[str]:
    """Prints the table; what grows. `blocks`: bytes that were taken off nats-server's memory."""
    wrong: list[str] = []
    long = so_far.seconds >= LONG_S
    print(
        f"{'process':10} {'lives':>5} {'RSS MiB':>8} {'most':>6} {'RSS slope':>20} {'fds':>5} most"
    )
    for name, samples in sorted(so_far.rss.items()):
        memory = warm(samples, warm_up_s, SETTLED_S if long else 0.0)
        counts = warm(so_far.descriptors[name], warm_up_s)
        if not memory:
            continue
        line: Slope = slope(memory)
        most, fds = max(s.value for s in memory), [s.value for s in counts]
        print(
            f"{name:10} {so_far.lives(name):5} {line.mean:8.0f} {most:6.0f} {line!s:>20}"
            f"{' ' if line.tells(LIMIT) else '?'}{sum(fds) / len(fds):5.0f} {max(fds):.0f}"
        )
        if long and line.above(LIMIT):
            wrong.append(f"{name} grows by {line}")
        if not long and most > RSS_MIB:
            wrong.append(f"{name} has {most:.0f} MiB")
        if not is_flat(counts, SLACK):
            wrong.append(f"{name} holds more and more descriptors: {max(fds):.0f}")
    print(f"?: too unsure to tell growth by {LIMIT:.0%} an hour from none; a longer run may")
    print(f"{NATS}: without the {blocks / MIB:.1f} MiB of its buckets' newest files")
    if so_far.kills and not blocks:
        wrong.append(f"{NATS} keeps its buckets elsewhere than at {BLOCKS}")
    return wrong
