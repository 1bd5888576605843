"""How a lane cuts what its callers have waiting into messages."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidelog.actor import Reply
from tidelog.pump_client.delivery.lane import cut
from tidelog.pump_client.delivery.send import Send

LIMIT, COUNT = 1000, 5


@given(st.lists(st.integers(0, 1500), max_size=40))
def test_pieces_are_consecutive_and_within_both_limits(sizes: list[int]) -> None:
    sends = [Send(bytes(size), Reply(lambda _value, _error: None, {})) for size in sizes]
    pieces = list(cut(sends, LIMIT, COUNT))
    assert [send for piece in pieces for send in piece] == sends
    for piece in pieces:
        assert 0 < len(piece) <= COUNT
        assert len(piece) == 1 or sum(len(send.payload) for send in piece) <= LIMIT
