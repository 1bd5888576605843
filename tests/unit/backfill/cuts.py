"""Sizes of chunks, in bytes, for logs that are cut anywhere."""

from __future__ import annotations

from hypothesis import strategies as st

from tidelog.record import HEADER_BYTES


def chunk_sizes(most: int) -> st.SearchStrategy[int]:
    """Any record has more bytes than the least of them: it can be alone in a chunk, with empty ones
    before and after it. Smaller chunks are only many more empty ones, which took the time."""
    return st.integers(HEADER_BYTES, most)
