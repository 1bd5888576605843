"""An application that reads a feed by the library, and holds it against what was committed."""

from __future__ import annotations

import tidelog
from tests.integration.drainer.ledger import Ledger, check_rows
from tests.wrong import Wrong
from tidelog.errors import TidelogError
from tidelog.subscriber.transaction import Transaction


class Subscriber:
    """From the feed's beginning. With `consumer` it is registered under that name, and acks what it
    has seen; without one it depends on what the Pumps keep."""

    def __init__(self, ledger: Ledger, feed: str, nats_url: str, *, consumer: str = "") -> None:
        self.position = 0
        self.checked = 0
        self._ledger = ledger
        self._feed, self._url, self._consumer = feed, nats_url, consumer

    async def run(self, upto: int | None = None) -> None:
        """Raises Wrong."""
        try:
            async with tidelog.subscribe(
                self._feed, nats_url=self._url, start=0, consumer=self._consumer, timeout_s=None
            ) as changes:
                async for txn in changes if upto is None else changes.until(upto):
                    self._take(txn)
                    if self._consumer:
                        await changes.ack(txn.position)
        except TidelogError as error:
            raise Wrong(f"the subscriber at {self.position}: {error}") from error

    def _take(self, txn: Transaction) -> None:
        """Each transaction in its turn, none left out."""
        order = self._ledger.order
        wanted = order[self.checked] if self.checked < len(order) else None
        if txn.commit_ts != wanted:
            raise Wrong(f"{txn.commit_ts} comes after {self.position}, where {wanted} is next")
        written = self._ledger.txns[txn.commit_ts]
        if written.start_ts != txn.start_ts:
            raise Wrong(f"{txn.commit_ts} has start_ts {txn.start_ts}, not {written.start_ts}")
        check_rows(txn.commit_ts, written, txn.rows, txn.ddls)
        self.position = txn.commit_ts
        self.checked += 1
