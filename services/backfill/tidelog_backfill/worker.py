"""Spark's Python workers, as far as our tasks care."""

from __future__ import annotations

import gc

from tidelog.service import COLLECT_AFTER


def settle() -> None:
    """For the beginning of a task. A worker looks for cycles among all of its objects after every
    task, which takes 50 ms with what we import: what is there by then is never looked at again."""
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)
