"""Runs: pieces of a log joined, none across a DDL, whatever their order."""

from __future__ import annotations

from itertools import pairwise
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from tidelog_backfill.files import runs as module
from tidelog_backfill.files.runs import Piece, runs

LIMIT = 50


@st.composite
def pieces(draw: st.DrawFn) -> Piece:
    first = draw(st.integers(1, 60))
    begin = draw(st.integers(0, 1000))
    return (
        first,
        first + draw(st.sampled_from([0, 0, 0, 1, 5])),
        draw(st.integers(1, 5)),
        draw(st.integers(1, 40)),
        begin,
        begin + draw(st.integers(1, 9)),
    )


@given(ones=st.lists(pieces(), max_size=20), ddls=st.lists(st.integers(1, 60), max_size=4))
def test_pieces_are_joined_up_to_a_size_but_not_across_a_ddl(
    ones: list[Piece], ddls: list[int]
) -> None:
    with patch.object(module, "RUN_BYTES", LIMIT):
        found = runs(ones, ddls)
    assert all(a.last_ts < b.first_ts for a, b in pairwise(found))
    for run in found:
        inside = [one for one in ones if run.first_ts <= one[0] <= run.last_ts]
        columns = list(zip(*inside, strict=True))
        assert (run.first_ts, run.last_ts) == (min(columns[0]), max(columns[1]))
        assert (run.rows, run.size) == (sum(columns[2]), sum(columns[3]))
        assert (run.begin, run.end) == (min(columns[4]), max(columns[5]))
        apart = not any(a[1] >= b[0] for a, b in pairwise(sorted(inside)))
        if apart:
            assert run.size <= LIMIT or len(inside) == 1
            assert not any(a[1] < ddl <= b[0] for a, b in pairwise(sorted(inside)) for ddl in ddls)
    for a, b in pairwise(found):
        first = min(one for one in ones if one[0] == b.first_ts)
        ddl_between = any(a.last_ts < ddl <= b.first_ts for ddl in ddls)
        assert ddl_between or a.size + first[3] > LIMIT
    assert sum(run.rows for run in found) == sum(one[2] for one in ones)
