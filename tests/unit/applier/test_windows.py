"""How what came of the stream is cut into windows."""

from __future__ import annotations

from collections.abc import AsyncIterator

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.downstreams.shapes import ddl, table
from tidelog.changes import MarkedTxn
from tidelog.relay import Batch, LargeBatch
from tidelog_applier.apply.windows import cut
from tidelog_applier.read import Moved, Taken

CREATED = ddl("create_table", (None, table("t")))
MAX_ROWS, MAX_BYTES = 10, 100


async def nothing() -> AsyncIterator[list[bytes]]:
    yield []


def batch(at: int, rows: int, size: int, *, with_ddl: bool) -> Batch:
    txns = [MarkedTxn(at, at, rows)]
    ddls = [CREATED] if with_ddl else []
    return Batch(at, at - 1, txns, [b"x" * size], ddls, {}, size)


def items(kinds: list[tuple[str, int, int]]) -> list[Taken]:
    found: list[Taken] = []
    for at, (kind, rows, size) in enumerate(kinds, 1):
        if kind == "moved":
            found.append(Moved(at))
        elif kind == "large":
            txns = [MarkedTxn(at, at, rows)]
            found.append(LargeBatch(at, at - 1, txns, [], {}, size, nothing))
        else:
            found.append(batch(at, rows, size, with_ddl=kind == "ddl"))
    return found


KINDS = st.tuples(
    st.sampled_from(["rows", "rows", "rows", "moved", "large", "ddl"]),
    st.integers(0, 12),
    st.integers(0, 120),
)


@given(st.lists(KINDS, max_size=30))
def test_everything_is_in_one_window_in_order_and_none_is_overfull(
    kinds: list[tuple[str, int, int]],
) -> None:
    given_items = items(kinds)
    seen: list[Taken] = []
    for one in cut(given_items, MAX_ROWS, MAX_BYTES):
        if not isinstance(one, list):
            seen.append(one)
            continue
        seen += one
        assert one
        if any(member.ddls for member in one):
            assert len(one) == 1
        # Without its last batch it had room for one more.
        assert sum(m.txns[0].rows for m in one[:-1]) < MAX_ROWS
        assert sum(m.size for m in one[:-1]) < MAX_BYTES
    assert [item.commit_ts for item in seen] == [item.commit_ts for item in given_items]


def test_batches_that_fit_share_a_window() -> None:
    few = items([("rows", 3, 10)] * 4 + [("moved", 0, 0)] + [("rows", 3, 10)])
    sizes = [len(one) if isinstance(one, list) else 0 for one in cut(few, MAX_ROWS, MAX_BYTES)]
    assert sizes == [4, 0, 1]
