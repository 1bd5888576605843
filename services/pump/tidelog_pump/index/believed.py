"""Up to which timestamp was believed, by place in the log: an index that is built again goes by it
(I9). Pure.

Under `follow` a timestamp moves W if it is near the clock as it comes. Who reads it again later can
not go by the clock of then: what was refused as too far ahead may be near that one. So marks of W
in log order are kept, each a word of the past:

    Mark(at, ts)   nothing that lies before `at` moved W above `ts`

Of a record the first mark behind it says how far its timestamps were believed, at most. That errs
in one direction only. Whatever moved W when it came is at or below the ts of each mark behind it,
so it moves W again: W, bounds and resolved_ts come out no lower than they were. A mark that is
missing, because the process died first, it was damaged, or there were too many, leaves its records
to the next one, whose ts is no lower; where there is none, to the clock of now, as if nothing was
known. What the clock did meanwhile, forth or back, does not matter.

Too much is believed by what W moved between two marks; so there is one for each `every_ms` of it.
That is half of what a timestamp may be ahead of the clock: what was refused lies further ahead.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate
from operator import itemgetter
from typing import NamedTuple

from crc32c import crc32c

from tidelog.timestamps import physical_ms
from tidelog_pump.log.place import Pointer

MARKS = 16384
"""384 KiB; at half a minute, and two for each, of three days. Of more every second one goes."""
_BODY = struct.Struct("<IQQ")
_CRC = struct.Struct("<I")
SLOT_BYTES = _BODY.size + _CRC.size

_at = itemgetter(0)


class Mark(NamedTuple):
    at: Pointer
    ts: int


NO_MARK = Mark(Pointer(0, 0), 0)


def pack(marks: Iterable[Mark]) -> bytes:
    """A slot each, with its checksum: what is torn or damaged takes no other mark with it."""
    bodies = [_BODY.pack(*mark.at, mark.ts) for mark in marks]
    return b"".join(body + _CRC.pack(crc32c(body)) for body in bodies)


def unpack(data: bytes) -> tuple[list[Mark], int]:
    """The marks that are as they were written, and how many are not."""
    found: list[Mark] = []
    for start in range(0, len(data), SLOT_BYTES):
        body, crc = data[start : start + _BODY.size], data[start + _BODY.size :][: _CRC.size]
        if len(crc) == _CRC.size and _CRC.unpack(crc)[0] == crc32c(body):
            fid, offset, ts = _BODY.unpack(body)
            found.append(Mark(Pointer(fid, offset), ts))
    return found, -(-len(data) // SLOT_BYTES) - len(found)


class Believed:
    """The marks, those that nobody took to write yet, and the newest place that has none."""

    def __init__(self, every_ms: int, marks: Iterable[Mark] = ()) -> None:
        ordered = sorted(marks)
        highest = accumulate((mark.ts for mark in ordered), max)
        self.marks = [Mark(mark.at, ts) for mark, ts in zip(ordered, highest, strict=True)]
        self.fresh: list[Mark] = []
        self.thinned = False
        """Some were too many: what was written before has to be written anew."""
        self._every_ms = every_ms
        self._unmarked: Mark | None = None

    def up_to(self, at: Pointer) -> int | None:
        """Of the record at this place no timestamp above it was believed; None: nobody knows."""
        after = bisect_right(self.marks, at, key=_at)
        return self.marks[after].ts if after < len(self.marks) else None

    def note(self, at: Pointer, ts: int) -> None:
        """W is `ts` with all that lies before `at`. Before it leaps there is a mark for what came
        before, which would else be believed up to there."""
        newest = self._unmarked or self._last
        if at <= newest.at:
            return
        new = Mark(at, max(ts, newest.ts))
        if self._is_far(new):
            self.mark()
        self._unmarked = new
        if self._is_far(new):
            self.mark()

    def mark(self) -> None:
        """One for what has none yet. Of too many every second one goes, but for the last: behind it
        the clock of now counts."""
        if self._unmarked is not None:
            self.marks.append(self._unmarked)
            self.fresh.append(self._unmarked)
            self._unmarked = None
        if len(self.marks) > MARKS:
            del self.marks[-2::-2]
            self.fresh, self.thinned = [], True

    def take(self) -> list[Mark]:
        """To be written behind what was taken before."""
        fresh, self.fresh = self.fresh, []
        return fresh

    def take_all(self, start: Pointer) -> list[Mark]:
        """To be written instead of it. The log begins at `start`: marks of what is gone go."""
        del self.marks[: bisect_right(self.marks, start, key=_at)]
        self.fresh, self.thinned = [], False
        return self.marks

    @property
    def _last(self) -> Mark:
        return self.marks[-1] if self.marks else NO_MARK

    def _is_far(self, mark: Mark) -> bool:
        return physical_ms(mark.ts) - physical_ms(self._last.ts) >= self._every_ms
