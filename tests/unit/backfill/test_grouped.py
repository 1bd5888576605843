"""Small chunks are read together, large ones are not, and none twice."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from tidelog_backfill.files.chunk import Chunk
from tidelog_backfill.source.tasks import GROUPED_BYTES, PARTITIONS, Task, grouped

SIZES = st.lists(st.one_of(st.integers(1, 1000), st.integers(1, GROUPED_BYTES)), max_size=100)


@given(SIZES)
def test_each_chunk_is_read_once_in_order_and_no_group_is_large(sizes: list[int]) -> None:
    tasks = [Task(Chunk("relay", f"file-{at}", 0, size)) for at, size in enumerate(sizes)]
    groups = grouped(tasks)
    assert [one for group in groups for one in group] == tasks
    most = min(GROUPED_BYTES, sum(sizes) // PARTITIONS)
    for group in groups:
        assert len(group) == 1 or sum(one.chunk.end for one in group) <= most
    for group, following in itertools.pairwise(groups):
        assert sum(one.chunk.end for one in (*group, following[0])) > most


def test_partitions_are_no_larger_than_was_asked_for() -> None:
    tasks = [Task(Chunk("relay", "file", at << 20, at + 1 << 20)) for at in range(320)]
    assert {len(group) for group in grouped(tasks)} == {10}
    assert {len(group) for group in grouped(tasks, 4 << 20)} == {4}
    assert {len(group) for group in grouped(tasks, 1 << 20)} == {1}
