"""Sizes of chunks, in bytes, for logs that are cut anywhere."""

from __future__ import annotations

from hypothesis import strategies as st

from tidelog.record import HEADER_BYTES


def chunk_sizes(most: int) -> st.SearchStrategy[int]:
    """Any record has more bytes than the least of them: it can be alone in a chunk, with empty ones
    before and after it. Smaller ones, nearly all of them empty, took most of the time: short logs
    are tried with them."""
    return st.integers(HEADER_BYTES, most)
