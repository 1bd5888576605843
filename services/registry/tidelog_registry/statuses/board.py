"""Keeps the status bucket (`tidelog.node_statuses`): its only writer, always after its own last."""

from __future__ import annotations

import msgspec
import structlog

from tidelog.actor import Actor, Nothing, Ref
from tidelog.errors import Conflict, StreamMissing, Unavailable
from tidelog.failpoints import hit
from tidelog.messages import Nodes
from tidelog.node_statuses import STATUS_TTL_S, status_bucket
from tidelog.ports import Ports
from tidelog_registry.lease.tenure import Tenure
from tidelog_registry.mail import DirectoryMail, ListNodes
from tidelog_registry.metrics import STATUS_LOST
from tidelog_registry.statuses.entries import StatusEntries

log = structlog.get_logger()

LOOK_S = 1.0
WRITE_S = 2.0
"""An answer that does not come is not waited for until entries end."""


class StatusBoard(Actor[Nothing]):
    """Looks once a second at what the directory knows and at the bucket's last sequence. A bucket
    that isn't as we left it (deleted, rolled back, an answer that got lost) is written anew."""

    def __init__(
        self, ports: Ports, cluster: str, tenure: Tenure, directory: Ref[DirectoryMail]
    ) -> None:
        self._ports = ports
        self._tenure = tenure
        self._bucket = status_bucket(ports.bus, cluster)
        self._directory = directory
        self._entries = StatusEntries()
        self._created = ""
        self._last_seq = 0
        self._reason = ""

    async def on_start(self) -> None:
        self.spawn(self._keep(), "keep")

    def status(self) -> dict[str, object]:
        return {"last_seq": self._last_seq, "reason": self._reason}

    async def _keep(self) -> None:
        while True:
            try:
                self._tenure.check()
                await self._compare()
                await self._write()
                self._reason = ""
            except (Conflict, StreamMissing, Unavailable) as error:
                self._reason = str(error)
                log.info("the status bucket is not up to date", reason=self._reason)
            await self._ports.clock.sleep(LOOK_S)

    async def _compare(self) -> None:
        """Is the bucket as it was after our last write?"""
        state = await self._bucket.state() or await self._bucket.create()
        if (state.created, state.last_seq) == (self._created, self._last_seq):
            return
        if self._created:
            STATUS_LOST.inc()
            log.warning("the status bucket is written anew", ends_at=state.last_seq)
        self._entries.forget()
        self._created, self._last_seq = state.created, state.last_seq

    async def _write(self) -> None:
        nodes: Nodes = await self._directory.ask(ListNodes)
        now = self._ports.clock.monotonic()
        while due := self._entries.due(nodes.nodes, now):
            values = {key: msgspec.json.encode(status) for key, status in due.items()}
            hit("registry.statuses.before_write")
            self._last_seq = await self._bucket.put_all(
                values,
                ttl_s=STATUS_TTL_S,
                expected_last=self._last_seq,
                timeout_s=WRITE_S,
            )
            self._entries.wrote(due, now)
