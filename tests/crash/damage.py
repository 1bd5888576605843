"""`python -m tests.crash.damage`: every bit of a stored file flipped, every length it may be cut
to, at least 4 KiB of each kind (reliability R7). `--share 8` takes an eighth of it, by a seed.

What is read afterwards is what was written, or a typed error names the file and the offset (of a
small file only where its format has one), or the loss is of what was promised to nobody: a torn
tail beyond what is known to be synced. Never other data, never less of it without a word.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

from tests.crash import damaged_logs, damaged_small
from tests.last_line import verdict
from tests.quiet import quiet

SIZE = 4096
Judge = Callable[[bytes, int], str]
"""(a damaged file, the offset of the damage) -> what came of it. Raises what is wrong with that."""
KINDS: dict[str, Callable[[], tuple[bytes, Judge]]] = {
    **damaged_logs.KINDS,
    **damaged_small.KINDS,
}


class Result(NamedTuple):
    """Of one kind: flips and cuts by what came of them."""

    kind: str
    flips: Counter[str]
    cuts: Counter[str]
    wrong: list[str]


def flips(whole: bytes) -> Iterator[tuple[str, bytes, int]]:
    data = bytearray(whole)
    for bit in range(8 * len(whole)):
        data[bit // 8] ^= 1 << bit % 8
        yield f"bit {bit}", bytes(data), bit // 8
        data[bit // 8] ^= 1 << bit % 8


def cuts(whole: bytes) -> Iterator[tuple[str, bytes, int]]:
    for size in range(len(whole)):
        yield f"cut to {size}", whole[:size], size


def meet(kind: str, share: int, seed: int) -> Result:
    """One in `share` of all; 1: all."""
    quiet()
    whole, judge = KINDS[kind]()
    assert len(whole) >= SIZE, f"{kind}: {len(whole)} bytes"
    rng, wrong = random.Random(f"{kind}/{seed}"), list[str]()
    told = Counter[str](), Counter[str]()
    for found, way in zip(told, (flips, cuts), strict=True):
        for name, data, hurt in way(whole):
            if share > 1 and rng.randrange(share):
                continue
            try:
                found[judge(data, hurt)] += 1
            except Exception as error:  # noqa: BLE001 (an untyped error is as wrong)
                wrong.append(f"{kind}, {name}: {type(error).__name__}: {error}")
    return Result(kind, *told, wrong)


def closing(results: list[Result], share: int, seed: int) -> tuple[str, bool]:
    """The last line, and whether as much was met as was to be, with nothing wrong."""
    flipped = sum(result.flips.total() for result in results)
    cut = sum(result.cuts.total() for result in results)
    wrong = {
        "WRONG": sum(len(result.wrong) for result in results),
        "FEWER THAN ASKED FOR": _lacking(flipped, cut, share),
    }
    line = (
        f"damage: {flipped + cut} cases, {verdict(wrong, flipped + cut)} ({flipped} flips and {cut}"
        f" cuts of {len(results)} kinds of files, seed {seed}, 1 in {share})"
    )
    return line, not any(wrong.values())


def _lacking(flipped: int, cut: int, share: int) -> int:
    """How many cases: of a share, which is drawn, below nine in ten of it."""
    bytes_ = len(KINDS) * SIZE
    if share == 1:
        return max(0, 8 * bytes_ - flipped) + max(0, bytes_ - cut)
    return max(0, math.ceil(0.9 * 9 * bytes_ / share) - flipped - cut)


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.crash.damage")
    parser.add_argument("--share", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    kinds, count = list(KINDS), len(KINDS)
    with ProcessPoolExecutor(options.jobs) as pool:
        results = list(pool.map(meet, kinds, [options.share] * count, [options.seed] * count))
    for result in results:
        print(f"{result.kind:<18} flips {dict(result.flips)}, cuts {dict(result.cuts)}")
        for line in result.wrong[:5]:
            print(f"  {line}")
    line, is_right = closing(results, options.share, options.seed)
    print(line)
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
