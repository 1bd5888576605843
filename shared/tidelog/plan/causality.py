"""Which lane works on which key (seed 000, "conflict detection").

Two rows that share a key must meet the downstream in upstream order. A lane keeps order, so a row
joins the lane where one of its keys is in flight. If its keys are in flight in several lanes no
lane is right, and everything in flight is applied first. (The seed flushes at the second meeting
already; a shared group would do, see design section 9.)

A key is in flight until the last window that holds it is applied.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final, final
from zlib import crc32

CONFLICT: Final = -1
MOST_LANES: Final = 200

_LANE_BITS: Final = 8
_LANE_MASK: Final = 255
_SEVERAL: Final = 255
"""In place of a lane: the key's own window has it in several."""


def lane_of(key: object, lanes: int) -> int:
    """A lane by hash: the same in every process, unlike Python's own hash of text."""
    if isinstance(key, int):
        return key % lanes
    return _hash(key) % lanes


def _hash(key: object) -> int:
    if isinstance(key, str):
        return crc32(key.encode("utf-8", "surrogatepass"))
    if isinstance(key, bytes):
        return crc32(key)
    if isinstance(key, tuple):
        mixed = len(key)
        for part in key:
            mixed = (mixed * 1000003 ^ _hash(part)) & 0xFFFFFFFF
        return mixed
    return hash(key)


@final
class Causality:
    """The keys in flight of one table. Windows are numbered upwards from 0.

    Memory: one entry for each key of the windows in flight.
    """

    def __init__(self, lanes: int) -> None:
        assert 0 < lanes <= MOST_LANES
        self._lanes = lanes
        self._known: dict[Hashable, int] = {}
        """Key -> the last window that holds it, and its lane."""
        self._windows: dict[int, list[Hashable]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def place(self, keys: Sequence[Hashable], window: int) -> int:
        """The lane of a row (or of rows that belong together) with these keys, or CONFLICT: flush,
        then `clear`.

        Within one window rows may share keys freely (window.py tells why), so keys in several lanes
        are no conflict while no other window is in flight.
        """
        known = self._known
        lane = -1
        for key in keys:
            entry = known.get(key, -1)
            if entry < 0:
                continue
            found = entry & _LANE_MASK
            if lane < 0:
                lane = found
            if found != lane or found == _SEVERAL:
                return self._disagree(keys, window)
        if lane < 0:
            lane = lane_of(keys[0], self._lanes)
        value = window << _LANE_BITS | lane
        for key in keys:
            known[key] = value
        self._held(window).extend(keys)
        return lane

    def applied(self, window: int) -> None:
        """Every lane is done with the window."""
        for key in self._windows.pop(window, ()):
            if self._known.get(key, -1) >> _LANE_BITS == window:
                del self._known[key]

    def clear(self) -> None:
        """Nothing is in flight any more."""
        self._known.clear()
        self._windows.clear()

    def _held(self, window: int) -> list[Hashable]:
        held = self._windows.get(window)
        if held is None:
            held = self._windows[window] = []
        return held

    def _disagree(self, keys: Sequence[Hashable], window: int) -> int:
        if any(one != window for one in self._windows):
            return CONFLICT
        lane = self._known.get(keys[0], _SEVERAL) & _LANE_MASK
        if lane == _SEVERAL:
            lane = lane_of(keys[0], self._lanes)
        held = self._held(window)
        for key in keys:
            entry = self._known.get(key, -1)
            several = entry >= 0 and entry & _LANE_MASK != lane
            self._known[key] = window << _LANE_BITS | (_SEVERAL if several else lane)
            held.append(key)
        return lane
