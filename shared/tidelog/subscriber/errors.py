"""What a subscription raises beside Gap, Purged and the bus' own errors."""

from __future__ import annotations

from tidelog.errors import Refused, Unavailable

MISSED = (
    "the Pumps hold it no longer: rebuild what you have from a copy of the source and subscribe "
    "from its commit_ts, or drop it and subscribe with start='beginning'"
)
"""The hint of Gap and Purged where an application reads: only it can say which of the two."""


class TooLarge(Refused):
    """A transaction's rows are more than `buffer_bytes`: they are not held in memory."""

    default_hint = "read them by `async for rows in txn.parts()`, or raise buffer_bytes"


class PartsLost(Unavailable):
    """The stream was lost while a large transaction was read in parts."""

    default_hint = "undo what you did of it and subscribe again, from the position before it"
