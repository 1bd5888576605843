"""Memory while nearly everything is filtered (T2): a share of what `filtered.py` does whole; and
what of it fails as no proof."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from tests.acceptance import filtered
from tests.acceptance.filtered import (
    DELETES,
    ENVIRONMENT,
    FLAT_MIB,
    dropped,
    kept,
    mostly_filtered,
    topology,
)
from tests.acceptance.writing import now_ts
from tests.wrong import Wrong
from tidelog import subjects
from tidelog.changes import Watermark
from tidelog.ports import Message

TXNS = 1000


class Feed:
    """The bus and the Pump of a feed whose watermark follows what is written, or stands still."""

    def __init__(self, *, follows: bool) -> None:
        self._follows = follows
        self._written = 0

    async def connect(self, *url: object, **named: object) -> Feed:
        return self

    async def close(self) -> None:
        """Nothing is open."""

    async def last_message(self, stream: str, subject: str) -> Message | None:
        if subject != subjects.changes_watermark("main"):
            return None
        at = self._written if self._follows else 0
        return Message(subject, msgspec.json.encode(Watermark(at, 0)))

    def write(self, pump: Feed, insert: int | None) -> int:
        self._written = now_ts()
        return self._written


def _lag(monkeypatch: pytest.MonkeyPatch, feed: Feed, seconds: float) -> filtered.Lag:
    monkeypatch.setattr(filtered, "NatsBus", feed)
    monkeypatch.setattr(filtered, "Traffic", lambda: feed)
    monkeypatch.setattr(filtered, "pump_of", nullcontext)
    monkeypatch.setattr(filtered, "STUCK_S", 0.1)
    return filtered.all_filtered(SimpleNamespace(nats=""), seconds)  # type: ignore[arg-type]


def test_a_watermark_that_follows_lags_by_what_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _lag(monkeypatch, Feed(follows=True), 0.1).transactions


def test_no_traffic_proves_no_lag(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Wrong, match="0 transactions in 0 s"):
        _lag(monkeypatch, Feed(follows=True), 0)


def test_a_watermark_that_stands_still_is_wrong_whatever_the_clock_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(Wrong, match="stands at 0"):
        _lag(monkeypatch, Feed(follows=False), 0.1)


def test_memory_does_not_grow_with_filtered_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    with topology(tmp_path) as running:
        first, then = mostly_filtered(running, TXNS)
        assert then.now - first.now < FLAT_MIB
        assert dropped(running)["event_filter"] == TXNS * DELETES
    assert kept(tmp_path) == TXNS
