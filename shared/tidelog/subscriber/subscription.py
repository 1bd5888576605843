"""What an application iterates over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import chain
from typing import Generic, TypeVar

from tidelog.errors import BadInput, DeadlineExceeded, Purged, TidelogError, Unavailable
from tidelog.feed_reader import FeedReader, Gap
from tidelog.ports import Bus
from tidelog.rewind import Rewinding, RewindingFeed
from tidelog.subscriber.assemblers import Batch, BatchAssembler, Reached, RowAssembler, RowItem
from tidelog.subscriber.errors import MISSED
from tidelog.subscriber.positions import Position
from tidelog.subscriber.registration import Registration
from tidelog.subscriber.tables import Tables
from tidelog.subscriber.transaction import Source, Transaction, transactions
from tidelog.timestamps import TS_MAX

WAIT_S = 1.0

F = TypeVar("F")
T = TypeVar("T")
Step = tuple[T | None, int | None]
"""What to hand over, and up to where everything is done after it."""


class Subscription(Generic[T]):
    """`async for` it, from one task. What was handed over counts as done when the next one is asked
    for: of that `watermark`, `position` and `reached` speak. Reconnects, and a stream that is gone
    or filled again, are waited out; what the stream no longer holds comes out of the Pumps. Raises
    Gap, Purged, Unavailable, UnparsablePayload, again and again then.
    """

    def __init__(
        self,
        feed: str,
        reader: RewindingFeed[F],
        steps: Callable[[F], Iterator[Step[T]]],
        registration: Registration | None,
    ) -> None:
        self._feed = feed
        self._reader: RewindingFeed[F] = reader
        self._registration = registration
        self._done = reader.position
        self._steps: Iterator[Step[T]] = iter(())
        self._handed_over: int | None = None
        self._waiting: dict[asyncio.Future[None], int] = {}
        self._failed: TidelogError | None = None

        async def fetch() -> Iterator[Step[T]]:
            return chain.from_iterable(map(steps, await reader.next(WAIT_S)))

        self._fetch = fetch

    @property
    def watermark(self) -> int:
        """Everything with commit_ts <= this is done, of the wanted tables; 0 before anything. It
        moves while nothing is committed, too."""
        return self._done or 0

    @property
    def position(self) -> Position | None:
        """The watermark, to be kept: subscribe with it to go on. Save it now and then also while
        none of your tables changes. None before anything."""
        return None if self._done is None else Position(self._feed, self._done)

    async def reached(self, commit_ts: int, timeout_s: float | None = None) -> None:
        """Returns when everything up to `commit_ts` is done: what a writer committed can be read
        here. Another task has to iterate. Raises DeadlineExceeded, and what ended the iteration."""
        self._check()
        if self.watermark >= commit_ts:
            return
        waiting = asyncio.get_running_loop().create_future()
        self._waiting[waiting] = commit_ts
        try:
            async with asyncio.timeout(timeout_s):
                await waiting
        except TimeoutError:
            raise DeadlineExceeded(
                f"{commit_ts} is not reached in {timeout_s} s; the watermark is {self.watermark}"
            ) from None
        finally:
            self._waiting.pop(waiting, None)

    async def ack(self, position: Position) -> None:
        """Registered consumers: everything up to there is kept safely by the application; what is
        not acked stays in the Pumps. After `unregister` it does nothing. Raises BadInput without
        `consumer`, or for another feed."""
        if position.feed != self._feed:
            raise BadInput(f"{position.encode()} is no position of feed {self._feed!r}")
        await self._registered().move(position.commit_ts)

    async def unregister(self) -> None:
        """This consumer goes for good: the Pumps wait for it no longer. Raises Unavailable, and
        Overloaded: ask again."""
        await self._registered().remove()

    def _registered(self) -> Registration:
        if self._registration is None:
            raise BadInput("nobody waits for this subscription", hint="subscribe(consumer=NAME)")
        return self._registration

    def __aiter__(self) -> Subscription[T]:
        return self

    async def __anext__(self) -> T:
        item = await self.next()
        if item is None:
            raise StopAsyncIteration
        return item

    async def until(self, commit_ts: int) -> AsyncIterator[T]:
        """What was committed up to there; then it ends, and another iteration goes on behind it.
        Of messages as they come some that are above may be among it: each comes once."""
        while (item := await self.next(commit_ts)) is not None:
            yield item

    async def next(self, upto: int = TS_MAX) -> T | None:
        """The next one; None once everything up to `upto` is done. It may be cancelled."""
        self._check()
        self._reach(self._handed_over)
        try:
            while self.watermark < upto:
                step = next(self._steps, None)
                if step is None:
                    self._steps = await self._fetch()
                    await self._end_if_closed()
                    continue
                item, done = step
                if item is None:
                    self._reach(done)
                elif done is not None and done > upto:
                    self._steps = chain((step,), self._steps)
                    self._reach(upto)
                else:
                    self._handed_over = done
                    return item
        except TidelogError as error:
            if isinstance(error, Gap | Purged):
                error.hint = MISSED
            self._fail(error)
            raise
        return None

    async def _end_if_closed(self) -> None:
        """By another task, while this one waited: perhaps the stream was opened once more since."""
        if self._failed is not None:
            await self._reader.close()
            self._check()

    def _check(self) -> None:
        """Raises what ended the iteration: without where it was until now, which is longer each
        time."""
        if self._failed is not None:
            raise self._failed.with_traceback(None)

    def _reach(self, commit_ts: int | None) -> None:
        self._handed_over = None
        if commit_ts is None or commit_ts <= self.watermark:
            return
        self._done = commit_ts
        for waiting, wanted in self._waiting.items():
            if wanted <= commit_ts and not waiting.done():
                waiting.set_result(None)

    def _fail(self, error: TidelogError) -> None:
        self._failed = error
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_exception(error)

    async def close(self) -> None:
        self._fail(Unavailable("the subscription is closed"))
        try:
            await self._reader.close()
        finally:
            if self._registration is not None:
                await self._registration.end()


def of_transactions(
    bus: Bus,
    feed: str,
    after: int | None,
    tables: Tables,
    buffer_bytes: int,
    registration: Registration | None = None,
    rewinding: Rewinding | None = None,
) -> Subscription[Transaction]:
    """Whole transactions, in commit order, each once."""
    reader = whole_batches(bus, feed, after, tables, buffer_bytes, rewinding)
    source = Source(bus, feed, tables, reader.keep)

    def steps(found: Batch | Reached) -> Iterator[Step[Transaction]]:
        if isinstance(found, Reached):
            yield None, found.commit_ts
            return
        for txn in transactions(source, found):
            yield txn, txn.commit_ts
        yield None, found.marker.txns[-1].commit_ts

    return Subscription(feed, reader, steps, registration)


def whole_batches(
    bus: Bus,
    feed: str,
    after: int | None,
    tables: Tables,
    buffer_bytes: int,
    rewinding: Rewinding | None = None,
) -> RewindingFeed[Batch | Reached]:
    """What transactions are made of."""

    def opened(feed: str, after: int | None) -> FeedReader[Batch | Reached]:
        assembler = BatchAssembler(feed, after, tables, buffer_bytes)
        return FeedReader(bus, feed, assembler, tables.subjects(feed))

    return RewindingFeed(rewinding, feed, opened, after)


def of_rows(
    bus: Bus,
    feed: str,
    after: int | None,
    tables: Tables,
    registration: Registration | None = None,
    rewinding: Rewinding | None = None,
) -> Subscription[RowItem]:
    """Messages as they come."""

    def opened(feed: str, after: int | None) -> FeedReader[RowItem | Reached]:
        return FeedReader(bus, feed, RowAssembler(feed, after, tables), tables.subjects(feed))

    def steps(found: RowItem | Reached) -> Iterator[Step[RowItem]]:
        if isinstance(found, Reached):
            yield None, found.commit_ts
        else:
            yield found, None

    return Subscription(feed, RewindingFeed(rewinding, feed, opened, after), steps, registration)
