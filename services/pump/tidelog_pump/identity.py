"""Whose directory this is, and which life of its node this is (design section 12).

`.node` holds JSON {node, cluster_id, epoch, cluster, mark}; every start writes epoch + 1 before
anything serves. The mark is drawn once for a directory and goes with every word to the registry, so
that a second directory with our node id is refused whatever its epoch. A copy of the directory has
the same mark: it finds at its start that somebody answers under its node id, and if both start at
once the registry tells them apart by the life that each has drawn.
"""

from __future__ import annotations

import msgspec

from tidelog import subjects
from tidelog.actor import Actor, Nothing
from tidelog.errors import (
    ForeignCluster,
    ForeignDirectory,
    NodeIdTaken,
    Stranded,
    Unavailable,
)
from tidelog.failpoints import hit
from tidelog.messages import encode
from tidelog.ports import Bus, Disk, Lock, Rng
from tidelog.pump_control import ControlRequest
from tidelog.sealed import read_sealed, seal
from tidelog_pump.config import PumpConfig
from tidelog_pump.log.reserve import Reserve

NODE_FILE = ".node"
LOCK_FILE = ".lock"
ANSWER_S = 1.0
"""How long another Pump of our node id has to answer. (Without one NATS says so at once.)"""

UNREADABLE = (
    "it says whose directory this is: put back a copy of the file, or move the directory away and "
    "give its node up by `tidelog offline NODE --accept-loss`"
)


class NodeRecord(msgspec.Struct, frozen=True):
    """An empty `cluster` or `mark`: written by a release that knew none."""

    node: str
    cluster_id: int
    epoch: int
    cluster: str = ""
    mark: str = ""


class Identity:
    """Filled by the first child before the others start; they only read it."""

    def __init__(self) -> None:
        self.node = ""
        self.epoch = 0
        self.mark = ""
        self.life = ""
        self.address = ""
        """Where the gRPC service is bound, if it is; set by its edge."""
        self.slot = ""
        self.adopted = False
        """Only to be drained: it takes no Prewrites, whatever the registry says."""
        self.undrained: dict[str, str] = {}
        """Slots that nobody serves and we can't drain, and why; set by the adopter."""
        self.stranded: Stranded | None = None
        """Why nobody may read here; set by its keeper."""

    def check_readable(self) -> None:
        """Raises Stranded."""
        if self.stranded is not None:
            raise self.stranded


def claim(before: NodeRecord | None, wanted: NodeRecord, slot: str = "") -> NodeRecord:
    """The record of this life. `wanted` has what is configured, its node may be empty, and the mark
    that a directory without one gets. Raises ForeignDirectory, ForeignCluster. Pure."""
    here = slot or "the data directory"
    instead = f"take {slot} out of slots-dir" if slot else "give this Pump a data-dir of its own"
    if before is None:
        return msgspec.structs.replace(wanted, epoch=1)
    if wanted.node and wanted.node != before.node:
        raise ForeignDirectory(
            f"the data directory belongs to {before.node}, this is {wanted.node}"
        )
    if wanted.cluster_id != before.cluster_id:
        raise ForeignCluster(
            f"{here} is of cluster id {before.cluster_id}, configured is {wanted.cluster_id}",
            hint=f"{instead}, or set cluster-id = {before.cluster_id}",
        )
    if before.cluster and wanted.cluster != before.cluster:
        raise ForeignCluster(
            f"{here} is of cluster {before.cluster!r}, configured is {wanted.cluster!r}",
            hint=f"{instead}, or set cluster = {before.cluster!r}",
        )
    return msgspec.structs.replace(
        wanted, node=before.node, epoch=before.epoch + 1, mark=before.mark or wanted.mark
    )


def name_of(config: PumpConfig, drawn: str) -> str:
    """The node id of a new directory: the configured one, else HOST:PORT of the gRPC address that
    others use, if that is known and ours alone, else `drawn`. (A slot outlives the address of who
    took it first.)"""
    if config.slots_dir:
        return drawn
    if config.node_id or config.advertise_addr:
        return config.node_id or config.advertise_addr
    host, _, port = config.grpc_addr.rpartition(":")
    elsewhere = host in ("", "0.0.0.0", "[::]", "localhost", "[::1]")  # noqa: S104 (compared)
    if elsewhere or host.startswith("127.") or port == "0":
        return drawn
    return config.grpc_addr


class IdentityKeeper(Actor[Nothing]):
    """Says who we are; holds the lock of our directory, and its reserve; first to start and last to
    stop. (`lock`: None of an adopted slot: its adopter lets go once its files are closed.)"""

    tick_s = 5.0

    def __init__(
        self,
        disk: Disk,
        rng: Rng,
        lock: Lock | None,
        reserve: Reserve,
        identity: Identity,
        bus: Bus,
        config: PumpConfig,
    ) -> None:
        self._disk = disk
        self._rng = rng
        self._identity = identity
        self._bus = bus
        self._config = config
        self._lock = lock
        self._reserve = reserve

    async def on_start(self) -> None:
        config, before, identity = self._config, self._read(), self._identity
        drawn = self._rng.token()
        node = config.node_id if before else name_of(config, f"pump-{drawn}")
        wanted = NodeRecord(node, config.cluster_id, 0, config.cluster, drawn)
        record = claim(before, wanted, identity.slot)
        await self._nobody_else(record.node)
        hit("pump.identity.before_write")
        await self._reserve.write_file(NODE_FILE, seal(record))
        identity.node, identity.epoch, identity.mark = record.node, record.epoch, record.mark
        identity.life = drawn
        await self._reserve.keep()

    async def _nobody_else(self, node: str) -> None:
        """Raises NodeIdTaken if a Pump answers under our node id."""
        subject = subjects.pump(self._config.cluster, node, "control")
        question = encode(ControlRequest("status"))
        try:
            await self._bus.request(subject, question, timeout_s=ANSWER_S)
        except Unavailable:
            return
        raise NodeIdTaken(f"a Pump with the node id {node} runs already")

    async def on_tick(self) -> None:
        await self._reserve.keep()

    def _read(self) -> NodeRecord | None:
        slot = self._identity.slot
        return read_sealed(self._disk, NODE_FILE, NodeRecord, UNREADABLE, directory=slot)

    async def on_stop(self) -> None:
        if self._lock is not None:
            self._lock.release()

    def status(self) -> dict[str, object]:
        return {
            "node": self._identity.node,
            "epoch": self._identity.epoch,
            "slot": self._identity.slot,
            "reserve": self._reserve.size if self._reserve.there else 0,
        }
