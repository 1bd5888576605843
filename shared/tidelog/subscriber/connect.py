"""`tidelog.subscribe`: a reader on the real ports."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Literal, overload

from tidelog import logs
from tidelog.errors import BadInput
from tidelog.feeds import checked_name
from tidelog.real.bus import NatsBus
from tidelog.real.clock import RealClock
from tidelog.real.rng import RealRng
from tidelog.rewind import Rewinding
from tidelog.security.access import NatsAccess
from tidelog.subscriber.assemblers import RowItem
from tidelog.subscriber.registration import Registration
from tidelog.subscriber.start import Start, begin, kept_after
from tidelog.subscriber.subscription import Subscription, of_rows, of_transactions
from tidelog.subscriber.tables import Tables
from tidelog.subscriber.transaction import Transaction

NATS_URL = "nats://127.0.0.1:4222"
BUFFER_BYTES = 8 << 20


@overload
def subscribe(
    feed: str = ...,
    *,
    nats_url: str = ...,
    tables: Iterable[str] = ...,
    start: Start = ...,
    transactional: Literal[True] = ...,
    buffer_bytes: int = ...,
    consumer: str = ...,
    cluster: str = ...,
    timeout_s: float | None = ...,
    nats_nkey_file: str = ...,
    nats_ca: str = ...,
    nats_cert: str = ...,
    nats_key: str = ...,
) -> AbstractAsyncContextManager[Subscription[Transaction]]: ...


@overload
def subscribe(
    feed: str = ...,
    *,
    nats_url: str = ...,
    tables: Iterable[str] = ...,
    start: Start = ...,
    transactional: Literal[False],
    buffer_bytes: int = ...,
    consumer: str = ...,
    cluster: str = ...,
    timeout_s: float | None = ...,
    nats_nkey_file: str = ...,
    nats_ca: str = ...,
    nats_cert: str = ...,
    nats_key: str = ...,
) -> AbstractAsyncContextManager[Subscription[RowItem]]: ...


def subscribe(
    feed: str = "main",
    *,
    nats_url: str = NATS_URL,
    tables: Iterable[str] = (),
    start: Start = "now",
    transactional: bool = True,
    buffer_bytes: int = BUFFER_BYTES,
    consumer: str = "",
    cluster: str = "default",
    timeout_s: float | None = 30.0,
    nats_nkey_file: str = "",
    nats_ca: str = "",
    nats_cert: str = "",
    nats_key: str = "",
) -> AbstractAsyncContextManager[Any]:
    """Read a feed:

        async with tidelog.subscribe("main", tables=["shop.item"], start=position) as changes:
            async for txn in changes:
                for rows in txn.rows: ...

    `tables`: `db.table`, `db.*`, `*.table`; none = all. `start`: a Position or commit_ts to go on
    after, a datetime with a zone (what was committed then or later), "now", or "beginning" (all
    that is kept). `transactional`: whole transactions, each once; False: RowMessage, DdlMessage and
    Skipped as they come, sooner, and some of a large transaction perhaps twice.

    `buffer_bytes`: a larger transaction is not held in memory, see `Transaction.parts`. `consumer`:
    the Pumps keep what this one, registered under that name, has not acked. `cluster`: whose
    registry knows the consumer, and the Drainer that rewinds what the stream no longer holds.
    `timeout_s`: how long to wait for NATS and for the feed's stream, None for ever. `nats_…`: paths
    of the key that says who you are, and of PEM files for TLS; see docs/security.md.

    Raises BadInput, Unavailable, StreamMissing, Unauthenticated, Untrusted, Forbidden.
    """
    logs.quiet()
    checked_name(feed)
    wanted = Tables(tables)
    access = NatsAccess(
        nats_nkey_file=nats_nkey_file, nats_ca=nats_ca, nats_cert=nats_cert, nats_key=nats_key
    )
    if buffer_bytes < 1:
        raise BadInput(f"buffer_bytes {buffer_bytes}: at least 1")

    @asynccontextmanager
    async def subscribed() -> AsyncIterator[Any]:
        bus = await NatsBus.connect(
            nats_url, name="tidelog-subscriber", timeout_s=timeout_s, access=access
        )
        subscription: Subscription[Any] | None = None
        try:
            after = await begin(bus, feed, start, timeout_s)
            registration = None
            if consumer:
                registration = Registration(bus, RealClock(), cluster, feed, consumer)
                needed = await kept_after(bus, feed, timeout_s) if after is None else after
                await registration.begin(needed)
            rewinding = Rewinding(bus, cluster, feed, f"subscriber-{RealRng().token()}")
            if transactional:
                subscription = of_transactions(
                    bus, feed, after, wanted, buffer_bytes, registration, rewinding
                )
            else:
                subscription = of_rows(bus, feed, after, wanted, registration, rewinding)
            yield subscription
        finally:
            try:
                if subscription is not None:
                    await subscription.close()
            finally:
                await bus.close()

    return subscribed()
