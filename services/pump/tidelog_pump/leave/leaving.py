"""What the registry's word makes of this Pump, and what it has reached since (design section 7).

pausing   Prewrites are refused for sure; Commits and Rollbacks are taken, open Prewrites
          resolved, pulls served, W moves: it stays a source. `paused` once the writer says so.
closing   the same, until no Prewrite is open: then no Commit is taken any more, so that the last
          commit_ts announced is the last there will be, and it says that it is done. The
          registry calls it offline when every reader has passed that.
offline   what is stored can be read until the retention time is over; nothing is taken.
"""

from __future__ import annotations

from tidelog.actor import Ref
from tidelog.messages import CLOSING, JOINING, OFFLINE, PAUSED, PAUSING
from tidelog_pump.sort.sorter_actor import AwaitResolved, Resolved, SorterMessage
from tidelog_pump.write.writer import SetState, WriterMessage


class Leaving:
    def __init__(
        self, writer: Ref[WriterMessage], sorter: Ref[SorterMessage], *, kept_s: float
    ) -> None:
        self._writer = writer
        self._sorter = sorter
        self._kept_s = kept_s
        self._state = JOINING
        self._sealed = False

    async def on_state(self, state: str) -> None:
        """When it returns, no Prewrite is acked that this state forbids."""
        await self._tell_writer(state)
        self._state, self._sealed = state, False

    async def look(self) -> tuple[Resolved, str, dict[str, str]]:
        """What the sorter says, what was reached, and for an operator what is waited for."""
        now = await self._ask_sorter()
        if self._state == PAUSING:
            return now, PAUSED, {}
        if self._state == OFFLINE:
            days = self._kept_s / 86400
            kept = f"what it holds can be read for {days:g} days, nothing is taken any more"
            return now, OFFLINE, {"offline": f"{kept}; started again it is a new Pump"}
        if self._state != CLOSING:
            return now, "", {}
        if now.open or now.chased:
            behind = ", its index is behind" if now.chased else ""
            return now, "", {"closing": f"waits for {now.open} open Prewrites{behind}"}
        if not self._sealed:
            await self._tell_writer(CLOSING, sealed=True)
            self._sealed = True
            # A Commit without a Prewrite here may have come in between.
            now = await self._ask_sorter()
        last = now.max_commit_ts
        waits = f"readers to pass {last}" if last else "the registry: it holds nothing to read"
        return now, OFFLINE, {"closing": f"waits for {waits}"}

    async def _tell_writer(self, state: str, *, sealed: bool = False) -> None:
        await self._writer.ask(lambda reply: SetState(state, reply, sealed))

    async def _ask_sorter(self) -> Resolved:
        return await self._sorter.ask(lambda reply: AwaitResolved(-1, 0, reply))
