"""Whose directory this is, and which life of its node this is (design section 12).

`.node` holds JSON {node, cluster_id, epoch}; every start writes epoch + 1 before anything serves.
"""

from __future__ import annotations

import msgspec

from tidelog.actor import Actor
from tidelog.errors import Corrupt, ForeignCluster, ForeignDirectory
from tidelog.ports import Disk, Lock, Rng
from tidelog_pump.log.reserve import Reserve

NODE_FILE = ".node"
LOCK_FILE = ".lock"


class NodeRecord(msgspec.Struct, frozen=True):
    node: str
    cluster_id: int
    epoch: int


class Identity:
    """Filled by the first child before the others start; they only read it."""

    def __init__(self) -> None:
        self.node = ""
        self.epoch = 0
        self.address = ""
        """Where the gRPC service is bound, if it is; set by its edge."""


def claim(before: NodeRecord | None, node_id: str, cluster_id: int, made_up: str) -> NodeRecord:
    """The record of this life. Raises ForeignDirectory, ForeignCluster. Pure."""
    if before is None:
        return NodeRecord(node_id or made_up, cluster_id, 1)
    if node_id and node_id != before.node:
        raise ForeignDirectory(f"the data directory belongs to {before.node}, this is {node_id}")
    if cluster_id != before.cluster_id:
        raise ForeignCluster(
            f"the data directory is of cluster {before.cluster_id}, configured is {cluster_id}"
        )
    return NodeRecord(before.node, cluster_id, before.epoch + 1)


class IdentityKeeper(Actor[None]):
    """Says who we are; holds the lock of the directory, and its reserve; first to start and last
    to stop."""

    tick_s = 5.0

    def __init__(
        self,
        disk: Disk,
        rng: Rng,
        lock: Lock,
        reserve: Reserve,
        identity: Identity,
        *,
        node_id: str,
        cluster_id: int,
    ) -> None:
        self._disk = disk
        self._rng = rng
        self._identity = identity
        self._node_id = node_id
        self._cluster_id = cluster_id
        self._lock = lock
        self._reserve = reserve

    async def on_start(self) -> None:
        record = claim(self._read(), self._node_id, self._cluster_id, f"pump-{self._rng.token()}")
        await self._reserve.write_file(NODE_FILE, msgspec.json.encode(record))
        self._identity.node, self._identity.epoch = record.node, record.epoch
        await self._reserve.keep()

    async def on_tick(self) -> None:
        await self._reserve.keep()

    def _read(self) -> NodeRecord | None:
        if not self._disk.exists(NODE_FILE):
            return None
        data = self._disk.read_file(NODE_FILE)
        try:
            return msgspec.json.decode(data, type=NodeRecord)
        except msgspec.DecodeError as error:
            raise Corrupt(f"{NODE_FILE} can't be read: {error}") from error

    async def on_batch(self, batch: list[None]) -> None:
        """Takes no messages."""

    async def on_stop(self) -> None:
        self._lock.release()

    def status(self) -> dict[str, object]:
        return {
            "node": self._identity.node,
            "epoch": self._identity.epoch,
            "reserve": self._reserve.size if self._reserve.there else 0,
        }
