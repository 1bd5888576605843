"""The upstream is gone: bring the downstream to a state that the upstream had (seed 002).

Rows of one upstream transaction reach the downstream by several lanes, so an unclean end may leave
some of it there and some not. All of it is in the relay log: what lies above the checkpoint is
applied once more from there, up to the end, and the checkpoint says then that the downstream is
consistent.
"""

from __future__ import annotations

from datetime import UTC, datetime

import structlog

from tidelog.actor import Actor, Nothing
from tidelog.downstream import Checkpoint
from tidelog.errors import Stopped, TidelogError
from tidelog.offline import End
from tidelog.ports import Ports
from tidelog.relay import BatchLog
from tidelog.timestamps import physical_ms
from tidelog_applier.apply.pipeline import Pipeline
from tidelog_applier.apply.taking import Taking
from tidelog_applier.apply.windows import cut
from tidelog_applier.config import ApplierConfig
from tidelog_applier.position import Position
from tidelog_applier.read.intake import some

log = structlog.get_logger()


class Recovery(Actor[Nothing]):
    """Runs once, and says how it ended. It takes the downstream from no Applier that lives."""

    def __init__(self, config: ApplierConfig, ports: Ports, relay: BatchLog, end: End) -> None:
        self._config = config
        self._relay = relay
        self._position = Position()
        self._pipeline = Pipeline(
            config, ports, self._position, self.spawn, self.progress, if_free=True
        )
        self._taking = Taking(self._pipeline, ports.clock, self.spawn)
        self._end = end

    async def on_start(self) -> None:
        self.spawn(self._run(), "recovery")

    async def _run(self) -> None:
        try:
            found = await self._recover()
        except TidelogError as error:
            self._end(error)
            return
        self._end(found)

    async def _recover(self) -> bool:
        await self._pipeline.refused.open()
        await self._pipeline.ensure_open()
        saved, after = self._pipeline.control.checkpoint, self._pipeline.control.saved_ts
        await self._relay.open(after)
        end = self._relay.end
        if self._config.recover and saved is None and not self._relay.kept:
            raise Stopped(
                f"nothing of feed {self._config.feed} was ever applied to this downstream, and the"
                " relay log holds nothing",
                hint="look at downstream, checkpoint-table and data-dir: are they the Applier's?",
            )
        if (saved is None or saved.consistent) and end <= after:
            log.info("the downstream is consistent: there is nothing to recover", commit_ts=after)
            return False
        if not self._relay.kept:
            raise Stopped(
                f"the relay log holds nothing, and above {after} the downstream has rows of"
                " transactions that are not whole there",
                hint="restore the relay's directory, or fill the downstream again from its source",
            )
        if saved is not None and not saved.consistent:
            self._check_whole(saved, end)
        self._pipeline.control.safe_until = end
        log.info("recovering from the relay log", after=after, end=end)
        left = self._relay.batches(after)
        while items := await some(left):
            for one in cut(items, self._config.txn_batch, self._config.buffer_bytes // 2):
                await self._taking.take(one)
        await self._pipeline.drain()
        await self._pipeline.save(consistent=True)
        reached = self._pipeline.flight.applied
        log.info(
            "recovered: the downstream is what the source was at this commit_ts",
            commit_ts=reached,
            at=datetime.fromtimestamp(physical_ms(reached) / 1000, UTC).isoformat(" "),
            rows=self._pipeline.flight.rows,
        )
        return True

    def _check_whole(self, saved: Checkpoint, end: int) -> None:
        """Does the relay hold all that may have been applied? Raises Stopped."""
        hint = (
            "recover where the other Applier ran, from its data directory; without that, fill the"
            " downstream again from its source"
        )
        if not self._pipeline.control.is_own(saved):
            raise Stopped(
                f"another Applier wrote here last (epoch {saved.epoch}), or this one, with a relay"
                f" log that is gone: not all that was applied above {saved.commit_ts} is in this"
                " one",
                hint=hint,
            )
        if saved.unsure > end:
            raise Stopped(
                f"an earlier Applier may have applied rows up to {saved.unsure}, and this relay"
                f" log ends at {end}",
                hint=hint,
            )

    async def on_stop(self) -> None:
        await self._pipeline.close()
        self._relay.close()

    def status(self) -> dict[str, object]:
        return {
            "recovering": True,
            "downstream": self._pipeline.control.shown,
            "applied_ts": self._position.applied,
            "error": self._position.error,
            **self._taking.status(),
            **self._pipeline.status(),
        }
