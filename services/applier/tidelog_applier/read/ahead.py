"""While somebody else writes the downstream: the stream is read into the relay log, so that a
backlog of whatever size is there to be replayed, and nothing applies it meanwhile."""

from __future__ import annotations

from collections.abc import Callable

from tidelog.errors import DiskFull, TidelogError, Unavailable
from tidelog_applier.read.intake import Intake


class Ahead:
    """`reached`: everything up to there is in the relay log, or applied; told while it reads."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self._error: TidelogError | None = None

    @property
    def reached(self) -> int:
        """Raises what ended the reading."""
        if self._error is not None:
            raise self._error
        return self._intake.position

    async def read(self, wanted: Callable[[], bool]) -> Unavailable | DiskFull | None:
        """As long as it is wanted, or until it can't go on now (returned: ask again later) or at
        all (then it is in `reached`)."""
        try:
            while wanted() and self._error is None:
                await self._intake.next()
        except (Unavailable, DiskFull) as error:
            return error
        except TidelogError as error:
            self._error = error
        return None
