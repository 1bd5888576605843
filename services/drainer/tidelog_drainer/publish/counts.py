"""What a life of the publisher has done, for status and for the metrics."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import structlog

from tidelog import feed_metrics, subjects
from tidelog.skipped import Skipped
from tidelog_drainer import metrics
from tidelog_drainer.publish.batcher import Batch

KINDS = ("Insert", "Update", "Delete", "DDL")
"""The original's names of a batch's `Contents`."""

log = structlog.get_logger()


class Counts:
    def __init__(self, feed: str) -> None:
        self._feed = feed
        self._label = subjects.feed_label(feed)
        self._totals = {"txns": 0, "rows": 0, "batches": 0, "watermarks": 0}
        self._dropped: dict[str, int] = {}
        self._skipped = ""

    def met(self, commit_ts: int, skipped: Skipped) -> None:
        """What the feed lacks because its writers had no Pump."""
        self._skipped = f"{commit_ts}: {skipped}"
        metrics.SKIPPED.labels(self._label).inc(skipped.transactions)
        log.warning("the feed lacks transactions", feed=self._feed, skipped=self._skipped)

    def sent(self, batch: Batch, dropped: Mapping[str, int]) -> None:
        """A batch is in the stream; until then so many were dropped, by reason."""
        if batch.is_watermark:
            self._totals["watermarks"] += 1
        else:
            self._totals["txns"] += batch.txns
            self._totals["rows"] += batch.rows
            self._totals["batches"] += 1
            metrics.TXNS_PUBLISHED.labels(self._label).inc(batch.txns)
            metrics.ROWS_PUBLISHED.labels(self._label).inc(batch.rows)
            metrics.BATCHES.labels(self._label).inc()
            for kind, count in zip(KINDS, msgspec.structs.astuple(batch.ops), strict=True):
                feed_metrics.EVENTS.labels(kind).inc(count)
        for reason, count in dropped.items():
            new = count - self._dropped.get(reason, 0)
            if new:
                metrics.DROPPED.labels(self._label, reason).inc(new)
                self._dropped[reason] = count

    def shown(self) -> dict[str, object]:
        return {"skipped": self._skipped, **self._totals}
