"""The Pump's tree of actors, top to bottom. The same in production and in the simulator."""

from __future__ import annotations

import structlog

from tidelog.errors import ConfigError, Corrupt
from tidelog.membership import Membership
from tidelog.messages import PUMP, Heartbeat, NodeStatus
from tidelog.oracle import RegistryOracle
from tidelog.ports import IndexStore, Oracle, Ports
from tidelog.supervisor import Supervisor
from tidelog_pump.config import PumpConfig
from tidelog_pump.faker import Faker
from tidelog_pump.identity import LOCK_FILE, Identity, IdentityKeeper
from tidelog_pump.indexer import Indexer, unpaired
from tidelog_pump.metrics import INDEX_DROPPED
from tidelog_pump.nats_edge import NatsEdge
from tidelog_pump.puller import Puller, ReadFeeds
from tidelog_pump.resolver import Resolver
from tidelog_pump.segments import Segments
from tidelog_pump.sorter_actor import AwaitResolved, Resolved, SorterActor
from tidelog_pump.txn_status import BusTxnStatus
from tidelog_pump.writer import SetState, Writer

log = structlog.get_logger()

INDEX = "kv"


def build(config: PumpConfig, ports: Ports) -> Supervisor:
    """Messages flow edges -> writer -> {sorter, indexer}, indexer -> sorter, puller -> sorter."""
    clock, disk, bus, rng = ports.clock, ports.disk, ports.bus, ports.rng
    follow = config.oracle == "follow"
    oracle: Oracle | None = None if follow else RegistryOracle(bus, config.cluster)
    cluster_id, skew_s = config.cluster_id, config.clock_skew_s
    identity = Identity()
    segments = Segments(disk, segment_bytes=config.segment_bytes, sync=config.sync_log)
    status = BusTxnStatus(bus, config.cluster)

    lock = disk.lock(LOCK_FILE)
    store = open_index(ports)

    tree = Supervisor("pump")
    tree.actor(
        "identity",
        lambda: IdentityKeeper(
            disk, rng, lock, identity, node_id=config.node_id, cluster_id=cluster_id
        ),
    )
    sorter = tree.actor("sorter", lambda: SorterActor(clock, rng, oracle, clock_skew_s=skew_s))
    indexer = tree.actor(
        "indexer",
        lambda: Indexer(clock, segments, store, sorter, follow=follow, clock_skew_s=skew_s),
    )
    kept_free = config.stop_write_at_available_space
    writer = tree.actor(
        "writer",
        lambda: Writer(
            disk, segments, store, sorter, indexer, cluster_id=cluster_id, kept_free=kept_free
        ),
        # A write of a crashed writer may be in the log without being indexed: read the log again.
        shares=indexer,
    )
    tree.actor(
        "resolver",
        lambda: Resolver(
            clock,
            segments,
            store,
            status,
            sorter,
            writer,
            cluster_id=cluster_id,
            resolve_after_s=config.resolve_after_s,
            txn_timeout_s=config.txn_timeout_s,
        ),
    )
    if oracle is not None:
        interval_s = config.fake_interval_s
        tree.actor(
            "faker",
            lambda: Faker(
                clock,
                oracle,
                segments,
                sorter,
                writer,
                cluster_id=cluster_id,
                interval_s=interval_s,
            ),
        )
    puller = tree.actor("puller", lambda: Puller(clock, disk, bus, segments, store, sorter))
    addresses = grpc_addresses(config)
    if addresses:
        from tidelog_pump.grpc_edge import GrpcEdge

        tree.actor(
            "grpc",
            lambda: GrpcEdge(
                clock,
                segments,
                store,
                sorter,
                writer,
                identity,
                cluster_id=cluster_id,
                addresses=addresses,
            ),
        )
    tree.actor(
        "nats",
        lambda: NatsEdge(bus, config.cluster, identity, store, sorter, writer, puller),
    )

    async def describe() -> Heartbeat:
        now: Resolved = await sorter.ask(lambda reply: AwaitResolved(-1, 0, reply))
        node = NodeStatus(
            nodeId=identity.node,
            host=config.advertise_addr or identity.address,
            maxCommitTS=now.max_commit_ts,
            kind=PUMP,
            epoch=identity.epoch,
            highTS=now.high_ts,
            resolvedTS=now.resolved_ts,
            detail=complaints(store),
        )
        return Heartbeat(node, feeds=await puller.ask(ReadFeeds))

    async def on_state(state: str, safe_point: int) -> None:
        await writer.tell(SetState(state))

    tree.actor(
        "membership",
        lambda: Membership(
            ports,
            config.cluster,
            PUMP,
            describe,
            on_state,
            cluster_id=cluster_id,
            heartbeat_s=config.heartbeat_s,
        ),
    )
    return tree


def open_index(ports: Ports) -> IndexStore:
    """One that can't be opened, as after a power loss, is deleted: the indexer finds it empty and
    builds it again from the segments. The lock of the directory is ours by now."""
    try:
        return ports.open_index(INDEX)
    except Corrupt as error:
        INDEX_DROPPED.inc()
        log.warning("the index can't be opened, building it again", error=error.message)
        ports.drop_index(INDEX)
        return ports.open_index(INDEX)


def complaints(store: IndexStore) -> dict[str, str]:
    """What an operator should know, for `tidelog status`."""
    first = unpaired(store, 1)
    if not first:
        return {}
    start_ts, commit_ts, at = first[0]
    where = f"segment {at.fid} at {at.offset}"
    return {
        "unpaired": f"Commit {commit_ts} of {start_ts} has no Prewrite here ({where}), "
        "see indexer in /status"
    }


def grpc_addresses(config: PumpConfig) -> list[str]:
    """What the gRPC server binds. Raises ConfigError."""
    if config.grpc_addr and ":" not in config.grpc_addr:
        raise ConfigError(f"grpc-addr {config.grpc_addr!r}", hint="HOST:PORT")
    addresses = [config.grpc_addr] if config.grpc_addr else []
    return addresses + ([f"unix:{config.socket}"] if config.socket else [])
