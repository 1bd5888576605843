"""A segment's events through the pure stages of a replay, as Spark brings them from one to the
other, into the toy downstream of tests/unit/plan."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

import msgspec

from tests.unit.plan.toy import Downstream, Step, Toy, steps
from tidelog.changes import Event, RowMessage
from tidelog_backfill.files.chunk import Body
from tidelog_backfill.replay.bundles import Bundle, in_order
from tidelog_backfill.replay.gather import gathered
from tidelog_backfill.replay.routing import Routing, routing
from tidelog_backfill.replay.shuffle import Shuffler
from tidelog_backfill.replay.works import Works

Chunk = list[Body]


def keyed(event: Event) -> Event:
    """With the key that the stream has in it."""
    image = event.after if event.before is None else event.before
    assert image is not None
    return msgspec.structs.replace(event, key={"id": image["id"]})


def chunks(rng: Random, events: list[Event]) -> list[Chunk]:
    """Bodies of a few events, each in any chunk; some in two of them. In no order."""
    found: list[Chunk] = [[] for _ in range(rng.randint(1, 4))]
    low = 0
    while low < len(events):
        high = low + rng.randint(1, 5)
        message = RowMessage("d", "t", 1, [keyed(event) for event in events[low:high]])
        body = Body(msgspec.json.encode(message), low)
        for chunk in rng.sample(found, 2 if len(found) > 1 and rng.random() < 0.2 else 1):
            chunk.append(body)
        low = high
    for chunk in found:
        rng.shuffle(chunk)
    return found


def routed(
    toy: Toy, parts: int, pinned: Iterable[tuple[str, str]] = (), buckets: int = 1
) -> Routing:
    return routing(
        [("d", toy.structure, toy.rule)],
        parts,
        frozenset(pinned),
        buckets=buckets,
        row_bytes=1 << 20,
    )


def sent(
    rng: Random, chunks: list[Chunk], route: Routing, after_ts: int, until_ts: int
) -> list[list[Bundle]]:
    """By part, sorted as a part gets them."""
    parts: list[list[Bundle]] = [[] for _ in range(route.parts)]
    for chunk in chunks:
        shuffler = Shuffler(route, after_ts, until_ts)
        for body in chunk:
            shuffler.add(body)
            if rng.random() < 0.3:
                _give(shuffler, parts)
        _give(shuffler, parts)
    return [sorted(rows, key=in_order) for rows in parts]


def _give(shuffler: Shuffler, parts: list[list[Bundle]]) -> None:
    for one in shuffler.take():
        parts[one.part].append(one)


def planned(
    rng: Random, toy: Toy, chunks: list[Chunk], parts: int, after_ts: int, until_ts: int
) -> list[list[Step]]:
    """What each part writes, in order; a table that must be pinned is."""
    buckets = rng.randint(1, 3)
    route = routed(toy, parts, buckets=buckets)
    while True:
        found: list[list[Step]] = []
        pins: set[int] = set()
        for rows in sent(rng, chunks, route, after_ts, until_ts):
            works = Works(route, rng.choice([1, 2, 100]))
            groups = gathered(rows, route.spread, pins)
            found.append(
                [
                    step
                    for shares in works.of(groups)
                    for share in shares
                    for step in steps(share, True)
                ]
            )
        if not pins:
            return found
        assert not any(found), "a table that is pinned was written before"
        assert toy.text
        route = routed(toy, parts, [("d", "t")])


def write(rng: Random, downstream: Downstream, parts: list[list[Step]], share: float = 1.0) -> None:
    """The parts' steps in any order between them, or only that share of them."""
    left = [list(reversed(steps)) for steps in parts]
    count = int(share * sum(map(len, left)))
    for _ in range(count):
        ready = [steps for steps in left if steps]
        downstream.write(rng.choice(ready).pop())
