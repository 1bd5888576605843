"""Routes of a transaction outlive whatever else its decoding asks for on the way."""

from __future__ import annotations

import pytest

from tests.unit.decode.upstream import Upstream
from tidelog.decode import routes
from tidelog.decode.transactions import DdlTxn, RowTxn, Txn
from tidelog.schema import folded
from tidelog.schema.errors import TablesAway

MARK = "retl._drainer_repl_mark"
ONE = {"id": 1, "n": 1}


def looping() -> Upstream:
    up = Upstream(loopback_control=True, channel_id=7)
    up.create("retl", "_drainer_repl_mark", ("id", "channel_id"))
    up.create("app", "t")
    return up


@pytest.mark.parametrize("channel", [7, 8])
def test_a_mark_is_read_though_a_ddl_goes_ahead_of_its_transaction(channel: int) -> None:
    up = looping()
    up.add_column("app", "t", "x")
    txn = up.commit((MARK, "update", {"id": 1, "channel_id": channel}), ("app.t", "insert", ONE))
    assert txn is not None
    assert [ddl.message.kind for ddl in txn.ddls] == ["add_column"]
    assert txn.rows == (channel != 7)


def test_a_mark_is_read_though_its_transaction_fills_the_cache(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(routes, "ROUTES_MAX", 1)
    up = looping()
    assert up.commit((MARK, "update", {"id": 1, "channel_id": 7}), ("app.t", "insert", ONE)) is None
    assert up.dropped["loopback"] == 1


class Paged:
    """Each table of an upstream lies in a page of its own, of which one fits into memory."""

    def __init__(self, up: Upstream, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(folded, "LOADED_BYTES", 0)
        self.up = up
        self.loads = 0
        up.tracker.fold(1 << 62, keep=0)
        live = up.tracker.folded.live
        self._data = {one: {one: state.table.data} for one, state in live.items()}
        up.tracker.folded.saved({one: (state, one) for one, state in live.items()})
        up.tracker.again()

    def decode(self, txn: Txn, tries: int) -> RowTxn | DdlTxn | None:
        for _ in range(tries):
            try:
                return self.up.decoder.decode(txn)
            except TablesAway as away:
                self.loads += len(away.pages)
                for page in away.pages:
                    self.up.tracker.folded.load(page, self._data[page], keep=away.needed)
        raise AssertionError(f"not decoded after {tries} tries")


def test_a_transaction_of_more_tables_than_any_cache_holds_is_decoded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(routes, "ROUTES_MAX", 4)
    up = Upstream()
    for n in range(20):
        up.create("app", f"t{n}")
    txn = up.txn(*((f"app.t{n}", "insert", ONE) for n in range(20)))
    paged = Paged(up, monkeypatch)
    decoded = paged.decode(txn, tries=21)
    assert isinstance(decoded, RowTxn)
    assert decoded.rows == paged.loads == 20
