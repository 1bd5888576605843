"""Spark's Python workers, as far as our tasks care."""

from __future__ import annotations

import gc
from functools import cache

from tidelog.service import COLLECT_AFTER


@cache
def settle() -> None:
    """For the beginning of a task; once in a worker. It looks for cycles among all of its objects
    after every task, which takes 50 ms with what we import: that is never looked at again."""
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)
