"""Goes on with the running total: `python -m tests.simulation.full --jobs 2`, or `make sim-full`.

Plays again what found something, then blocks of seeds that `played.json` doesn't have yet, up to
--to histories in all. Each whole block is noted as it ends; Ctrl-C ends it at any time. The last
line is of what was played now, the line before of all. Exits 1 if a seed finds something now, if
fewer than --least were played now, and if all together never reached something. Another machine
plays seeds `--from` further on into a `--record` of its own, which `--add` takes into this one.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from tests.commit import commit
from tests.quiet import quiet
from tests.simulation.cluster import History, play
from tests.simulation.reach import missed
from tests.simulation.run import KINDS, closing_line, differing, histories
from tidelog.sim.checker import Findings

RECORD = Path(__file__).with_name("played.json")
BLOCK = 100
ALL = 100_000
LEAST = 1000
"""Two cores play 2,000 to 4,300 in the half an hour that `make full` gives them."""


class Block(msgspec.Struct, frozen=True, kw_only=True, rename={"first": "from"}):
    """Seeds `from`..`to`, without the last. `commit`: of the code that played them. `found`: by
    seed, how many findings of each kind; `mended`: by such a seed, the code that it is clean on."""

    first: int
    to: int
    commit: str
    date: str
    transactions: int
    faults: int
    virtual_s: int
    found: dict[int, dict[str, int]] = {}
    mended: dict[int, str] = {}

    @property
    def histories(self) -> int:
        return self.to - self.first


class Played(msgspec.Struct):
    """`reached`: how often all blocks together came to each thing of `reach.py`. `by`: by a seed
    that found something, the commit that mended it or the test that guards it, where somebody
    wrote that down; that a seed is clean on later code says little, as it is another history
    there."""

    blocks: list[Block] = []
    reached: dict[str, int] = {}
    by: dict[int, str] = {}

    @property
    def histories(self) -> int:
        return sum(block.histories for block in self.blocks)

    @property
    def transactions(self) -> int:
        return sum(block.transactions for block in self.blocks)

    def found(self) -> Counter[str]:
        """Findings of each kind, of seeds that are not mended."""
        found: Counter[str] = Counter(dict.fromkeys(KINDS, 0))
        for block in self.blocks:
            for seed, kinds in block.found.items():
                found.update({} if seed in block.mended else kinds)
        return found

    def line(self, found: Counter[str]) -> str:
        faults = sum(block.faults for block in self.blocks)
        return closing_line(self.histories, self.transactions, faults, found)

    def unexplained(self) -> list[int]:
        """Seeds that found something once, are clean now, and nobody wrote down why."""
        mended = (block.mended for block in self.blocks)
        return sorted({seed for seeds in mended for seed in seeds} - self.by.keys())

    def add(self, other: Played) -> None:
        """Raises ValueError where seeds would be in it twice."""
        for one in other.blocks:
            if any(one.first < block.to and block.first < one.to for block in self.blocks):
                raise ValueError(f"seeds {one.first}..{one.to} are in both records")
        self.blocks += other.blocks
        self.reached = dict(Counter(self.reached) + Counter(other.reached))
        self.by |= other.by

    def gaps(self, upto: int, begin: int = 0) -> Iterator[range]:
        """Seeds from `begin` on that no block has, a block each, as many as lack to `upto`
        histories."""
        left, seed = upto - self.histories, begin
        blocks = sorted((block.first, block.to) for block in self.blocks)
        while left > 0:
            first, to = next((block for block in blocks if block[1] > seed), (seed + left, 0))
            if first <= seed:
                seed = to
                continue
            end = min(seed + BLOCK, seed + left, first)
            yield range(seed, end)
            left, seed = left - (end - seed), end


def read(path: Path) -> Played:
    return msgspec.json.decode(path.read_bytes(), type=Played) if path.exists() else Played()


def write(played: Played, path: Path) -> None:
    """Whole, or not at all; a line each block."""
    lines = b",\n".join(map(msgspec.json.encode, played.blocks))
    maps = (dict(sorted(played.reached.items())), dict(sorted(played.by.items())))
    reached, by = (msgspec.json.encode(one).replace(b',"', b',\n"') for one in maps)
    fresh = path.with_suffix(".new")
    fresh.write_bytes(
        b'{"blocks":[\n' + lines + b'\n],"reached":' + reached + b',"by":' + by + b"}\n"
    )
    fresh.replace(path)


def play_block(seeds: range, jobs: int, of: str) -> tuple[Block, Counter[str]]:
    """The block, and what it reached. Its first seed is played twice."""
    reached: Counter[str] = Counter()
    found: dict[int, dict[str, int]] = {}
    transactions = faults = 0
    virtual_s = 0.0
    first: list[History] = []
    with closing(histories(seeds, jobs)) as playing:
        for done, history in enumerate(playing, 1):
            first = first or [history]
            reached.update(history.reached)
            transactions += history.transactions
            faults += history.faults
            virtual_s += history.virtual_s
            if not history.findings.clean:
                found[history.seed] = _found(history.findings)
                print(history.findings.text(history.seed), flush=True)
            if sys.stdout.isatty():
                print(f"\rseeds {seeds.start}..{seeds.stop}: {done}", end="", flush=True)
    for seed in differing(first, 1):
        found.setdefault(seed, {})["other"] = 1
        print(f"seed {seed} is another history when it is played again", flush=True)
    block = Block(
        first=seeds.start,
        to=seeds.stop,
        commit=of,
        date=datetime.now(UTC).date().isoformat(),
        transactions=transactions,
        faults=faults,
        virtual_s=round(virtual_s),
        found=found,
    )
    return block, reached


def _found(findings: Findings) -> dict[str, int]:
    return {kind: len(lines) for kind, lines in findings.kinds().items() if lines}


def play_again(played: Played, of: str) -> Counter[str]:
    """The seeds that found something and are not mended. Returns what they still find, by kind."""
    quiet()
    left: Counter[str] = Counter()
    for block in played.blocks:
        for seed in sorted(block.found.keys() - block.mended.keys()):
            history = play(seed)
            if history.findings.clean:
                block.mended[seed] = of
            else:
                left.update(_found(history.findings))
                print(history.findings.text(seed), flush=True)
    return left


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=int, default=ALL, help="histories in all")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin none after so")
    parser.add_argument("--least", type=int, default=LEAST, help="histories to be played now")
    parser.add_argument("--from", type=int, default=0, dest="begin", metavar="SEED")
    parser.add_argument("--record", type=Path, default=RECORD)
    parser.add_argument("--add", type=Path, metavar="RECORD", help="what another machine played")
    options = parser.parse_args(argv)
    began, played, now = time.monotonic(), read(options.record), Played()
    if options.add:
        played.add(read(options.add))
    of = commit()
    left = play_again(played, of)
    write(played, options.record)
    try:
        for seeds in played.gaps(options.to, options.begin):
            if time.monotonic() - began > options.seconds:
                break
            block, reached = play_block(seeds, options.jobs, of)
            for one in (played, now):
                one.add(Played([block], dict(reached)))
            write(played, options.record)
            end = "\r" if sys.stdout.isatty() else ""
            print(f"{end}seeds {seeds.start}..{seeds.stop}, {time.monotonic() - began:.0f} s")
    except KeyboardInterrupt:
        print("\nended: whole blocks are kept")
    return _told(played, now, left, options.least)


def _told(played: Played, now: Played, left: Counter[str], least: int) -> int:
    """Print what came out of all that was `played`, then of what was played `now`. `left`: what
    older seeds still find. The exit code."""
    if seeds := played.unexplained():
        print(f"once found something, clean now, nobody wrote down why: {seeds}")
    if others := missed(Counter(now.reached), now.histories):
        print(f"not reached now: {', '.join(others)}")
    never = missed(Counter(played.reached), played.histories)
    if never:
        print(f"NOT REACHED BY ALL: {', '.join(never)}")
    print(f"so far, {played.line(played.found())}")
    found = now.found() + left
    found["never reached"] = len(never)
    found["FEWER THAN ASKED FOR"] = max(0, least - now.histories)
    print(now.line(found))
    return 1 if +found or not now.transactions else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
