"""`ignore_error`: the application goes on without binlogs when no Pump takes them (appendix A.2).

At the first Prewrite that fails the client starts *skipping*: nothing is written any more until
`recover()`. What is committed meanwhile is counted, and told to the readers of every feed by a
record in the log as soon as a Pump takes it (tidelog.skipped, ADR 11).
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import structlog

from tidelog.errors import Corrupt, TidelogError
from tidelog.ports import Disk
from tidelog.pump_client.metrics import SKIPPED, SKIPPING
from tidelog.skipped import Skipped, joined
from tidelog.unreadable import NOT_READABLE

log = structlog.get_logger()

FILE = "skipping.json"


OPEN_KEPT = 1 << 16
"""Of transactions without a Prewrite that have not ended, at most so many are remembered."""


class Kept(msgspec.Struct, frozen=True):
    """What a restart must not forget: what is untold, as long as more may be skipped at least from
    where on, and the start_ts of a record that was being written, 0 = none."""

    untold: Skipped | None = None
    telling_at: int = 0


class Ending(NamedTuple):
    """A Commit of a record: by which Pump, and who else may hold its Prewrite."""

    pump: str
    commit_ts: int
    others: list[str]


class Skipping:
    """`on`: nothing is written. `untold`: what no Pump has a record of; `telling`: the part of it
    that is being written, in the transaction `telling_at`, 0 = none. `ending`: its Commit, once it
    may be on its way."""

    def __init__(self, client: str, disk: Disk | None) -> None:
        self._client = client
        self._disk = disk
        self.on = False
        self.reason = ""
        self.untold: Skipped | None = None
        self.telling: Skipped | None = None
        self.telling_at = 0
        self.ending: Ending | None = None
        self.transactions = 0
        """Skipped in this life."""
        self._open: dict[int, None] = {}
        """start_ts of those without a Prewrite that have not ended, also after `recover()`."""
        self._told_ts = 0
        self._changed = False
        self._error = ""

    @property
    def outlives_us(self) -> bool:
        """What is untold is known to the next life."""
        return self._disk is not None

    async def begin(self, start_ts: int, error: TidelogError) -> None:
        """No Pump took this Prewrite. Returns when a restart would know."""
        self.passed(start_ts)
        if self.on:
            return
        self.on, self.reason = True, f"{type(error).__name__}: {error.message}"
        SKIPPING.set(1)
        log.error(
            "no Pump takes binlogs: transactions go on without",
            error=str(error),
            hint="mend the Pumps, then PumpClient.recover(); feeds need what was skipped anew",
        )
        if self.untold is None:
            self.untold = Skipped(self._client, self.reason, start_ts, start_ts, 0)
        self._told_ts = self._told_ts or start_ts
        self._changed = True
        await self.save()

    def passed(self, start_ts: int) -> None:
        """Its Prewrite is not written."""
        if len(self._open) >= OPEN_KEPT:
            del self._open[next(iter(self._open))]
        self._open[start_ts] = None

    def ended(self, start_ts: int) -> None:
        """It will not be committed any more, or is."""
        if start_ts in self._open:
            del self._open[start_ts]
            self._changed = self._changed or not self._open

    def recover(self) -> None:
        if self.on:
            self.on = False
            self._changed = True
            SKIPPING.set(0)
            log.warning("binlogs are written again", skipped=self.transactions)

    def committed(self, commit_ts: int, *, ddl: bool) -> None:
        """A transaction without a Prewrite was committed upstream."""
        one = Skipped(self._client, self.reason, commit_ts, commit_ts, 1, int(ddl))
        self.untold = joined(self.untold, one)
        self.transactions += 1
        SKIPPED.inc()
        self._changed = True

    def load(self) -> None:
        """What the last life left. It may have skipped more after it wrote that down. Raises
        Corrupt."""
        if self._disk is None or not self._disk.exists(FILE):
            return
        try:
            kept = msgspec.json.decode(self._disk.read_file(FILE), type=Kept)
        except NOT_READABLE as error:
            raise Corrupt(
                f"{FILE} can't be read: {error}", hint="what it held is untold; move it away"
            ) from error
        self.telling_at = kept.telling_at
        if kept.untold is not None:
            old = msgspec.structs.replace(kept.untold, at_least=True)
            self.untold = joined(old, self.untold)

    async def save(self) -> None:
        """A disk that fails must not stop what `ignore_error` keeps going: it is shown."""
        if self._disk is None or not self._changed:
            return
        self._changed = False
        untold = joined(self.telling, self.untold)
        if untold is None and (self.on or self._open):  # all is told, and more may follow
            untold = Skipped(self._client, self.reason, self._told_ts, self._told_ts, 0)
        kept = Kept(untold, self.telling_at)
        try:
            await self._disk.write_file(FILE, msgspec.json.encode(kept))
            self._error = ""
        except TidelogError as error:
            self._changed = True
            if not self._error:
                log.error("what was skipped can't be kept", error=str(error))
            self._error = str(error)

    async def begin_telling(self, start_ts: int) -> Skipped | None:
        """What to write in the transaction `start_ts`; None: nothing was skipped after all."""
        telling, self.untold = self.untold, None
        self._changed = True
        if telling is None or not (telling.transactions or telling.at_least):
            return None
        self.telling, self.telling_at = telling, start_ts
        await self.save()
        return telling

    async def end_telling(self, *, told: bool) -> None:
        """`told`: readers will meet it. Else it is told anew."""
        if told and self.telling is not None:
            self._told_ts = self.telling.to_ts
        else:
            self.untold = joined(self.telling, self.untold)
        self.telling, self.telling_at, self.ending = None, 0, None
        self._changed = True
        await self.save()

    def status(self) -> dict[str, object]:
        return {
            "on": self.on,
            "reason": self.reason,
            "transactions": self.transactions,
            "untold": str(joined(self.telling, self.untold) or ""),
            "error": self._error,
        }
