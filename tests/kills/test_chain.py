"""The chain of a stream: each way in which it may be broken is said."""

from __future__ import annotations

import msgspec
import pytest

from tests.kills.chain import Again, Chain
from tests.wrong import Wrong
from tidelog import subjects
from tidelog.changes import MarkedTxn, Marker, Watermark
from tidelog.errors import Purged
from tidelog.ports import Message, Outgoing, StreamConfig
from tidelog.sim.world import World, run

FEED = "main"
Body = Marker | Watermark


def marker(prev: int, *times: int) -> Marker:
    return Marker("a", 0, prev, [MarkedTxn(ts, ts - 1, 0) for ts in times])


class Stream:
    """What the chain has taken so far."""

    def __init__(self) -> None:
        self.chain = Chain(FEED)
        self.sequence = 0

    def take(self, *bodies: Body) -> Chain:
        for body in bodies:
            made = subjects.changes_txn if isinstance(body, Marker) else subjects.changes_watermark
            self._take(made(FEED), msgspec.json.encode(body), {})
        return self.chain

    def row(self, attempt: str) -> None:
        self._take(subjects.changes_row(FEED, "d", "t"), b"{}", {"Tidelog-Attempt": attempt})

    def _take(self, subject: str, data: bytes, headers: dict[str, str]) -> None:
        self.sequence += 1
        self.chain.take(Message(subject, data, headers=headers, sequence=self.sequence))


@pytest.fixture
def stream() -> Stream:
    made = Stream()
    made.take(marker(0, 5, 7), Watermark(8, 7), marker(7, 9))
    return made


def test_a_chain_is_followed(stream: Stream) -> None:
    assert stream.take(Watermark(9, 9), marker(9, 10)).marked == 10


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (marker(7, 11), "prev_commit_ts 7 after a marker of 9"),
        (Watermark(11, 7), "prev_commit_ts 7 after a marker of 9"),
        (Watermark(8, 9), "watermark 8 below the marker of 9"),
        (marker(9, 9), "out of order, or published twice"),
        (marker(9, 11, 11), "out of order, or published twice"),
        (marker(9, 12, 11), "out of order, or published twice"),
    ],
)
def test_each_way_in_which_it_breaks(stream: Stream, body: Body, said: str) -> None:
    with pytest.raises(Wrong, match=said):
        stream.take(body)


@pytest.mark.parametrize("other", [2, 4], ids=["twice", "a hole"])
def test_a_message_that_is_missing_or_comes_twice(stream: Stream, other: int) -> None:
    stream.sequence += other - 3
    with pytest.raises(Wrong, match="follows 3"):
        stream.take(marker(9, 11))


def test_attempts_whose_marker_never_came_are_counted(stream: Stream) -> None:
    stream.row("a")
    stream.row("b")
    assert stream.take(marker(9, 11)).abandoned == 1
    stream.row("c")
    assert stream.take(marker(11, 12)).abandoned == 1


def test_what_is_left_of_a_stream_is_followed_from_what_it_links_to() -> None:
    chain = Chain(FEED, anywhere=True)
    times = ((7, 9), (9, 10), (10, 12))
    messages = [
        Message(subjects.changes_txn(FEED), msgspec.json.encode(marker(*two)), sequence=n)
        for n, two in enumerate(times, 40)
    ]
    for message in messages:
        chain.take(message)
    assert chain.marked == 12
    with pytest.raises(Again, match="published twice"):
        chain.link(messages[-1])
    with pytest.raises(Wrong, match="message 44 follows 42"):
        chain.take(msgspec.structs.replace(messages[-1], sequence=44))


def test_a_stream_that_has_let_go_of_its_beginning_is_followed_from_what_it_has() -> None:
    async def main(world: World) -> None:
        bus, stream = world.ports().bus, subjects.changes_stream(FEED)
        subject = subjects.changes_watermark(FEED)
        await bus.stream_create(StreamConfig(stream, (subject,), max_bytes=2000))
        for ts in range(1, 200):
            body = msgspec.json.encode(Watermark(ts, 7))
            await bus.append(stream, [Outgoing(subject, body)])
        whole, left = Chain(FEED), Chain(FEED, anywhere=True)
        with pytest.raises(Purged):
            await whole.follow(bus)
        following = world.loop.create_task(left.follow(bus))
        await world.until(lambda: left.marked == 7 or following.done(), 10, "what is left")
        assert not following.done()

    run(main, 1)
