"""What a feed's stream holds in the end, message by message: a reader forgives what comes twice,
and an application that reads without our library would take it twice."""

from __future__ import annotations

from tests.kills.chain import Again, Chain
from tests.wrong import Wrong
from tidelog import subjects
from tidelog.sim import World
from tidelog.sim.checker import Findings


def check_stored(world: World, feed: str, findings: Findings) -> None:
    """Of what is left of it: its store may have been lost, or gone back, in between."""
    stream = world.nats.streams.get(subjects.changes_stream(feed))
    chain = Chain(feed, anywhere=True)
    try:
        for slot in stream.slots if stream is not None else ():
            if slot is not None:
                chain.link(slot.message)
    except Again as again:
        findings.duplicates.append(f"the stream of {feed}: {again}")
    except Wrong as wrong:
        findings.gaps.append(f"the stream of {feed}: {wrong}")
