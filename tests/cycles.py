"""What refers to itself, and stays after its last use until Python's collector comes."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def left_in_cycles() -> Iterator[Counter[str]]:
    """Of the body: how many of each type, by its name. It is counted at the end."""
    left: Counter[str] = Counter()
    was_enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield left
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        left.update(type(one).__name__ for one in gc.garbage)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        if was_enabled:
            gc.enable()
