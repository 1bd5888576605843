"""The Pump's tree of actors, top to bottom. The same in production and in the simulator."""

from __future__ import annotations

import msgspec

from tidelog import node_routes
from tidelog.ports import Ports
from tidelog.supervisor import Supervisor
from tidelog.upstream.cluster import TidbClusterKeeper
from tidelog_pump.config import PumpConfig
from tidelog_pump.edges.http_edge import binlog, collect, drainers
from tidelog_pump.parts import Parts
from tidelog_pump.slots.adopter import Adopted
from tidelog_pump.slots.claim import Slot, claim


async def begin(config: PumpConfig, ports: Ports) -> Supervisor:
    """On the data directory; with `slots-dir` on a slot, once one is ours."""
    if not config.slots_dir:
        return build(config, ports)
    slot = await claim(ports, config.max_slots)
    return build(config, slot.ports, slot)


def build(config: PumpConfig, ports: Ports, slot: Slot | None = None) -> Supervisor:
    tree = tree_of(Parts(config, ports, slot))
    node_routes.add(tree, ports.bus, config.cluster)
    return tree


def adopt(config: PumpConfig, slot: Slot) -> Adopted:
    """The Pump of another slot, to drain it: without addresses and labels, they are ours."""
    bare = msgspec.structs.replace(config, grpc_addr="", socket="", advertise_addr="", labels={})
    parts = Parts(bare, slot.ports, slot)
    return Adopted(tree_of(parts), parts.let_go)


def tree_of(parts: Parts) -> Supervisor:
    """Messages flow edges -> writer -> {sorter, indexer}, indexer -> sorter, puller -> sorter."""
    tree = Supervisor("pump")
    # Whose directory this is; first to start, last to stop.
    tree.actor("identity", parts.identity_keeper)
    if parts.tidb is not None:
        # The connections to PD and TiKV.
        tidb = parts.tidb
        tree.actor("upstream", lambda: TidbClusterKeeper(tidb))
    # The index is closed once all that read it have ended.
    tree.actor("index", parts.index_keeper)
    # Open Prewrites, W, resolved_ts, and who waits for it.
    sorter = tree.actor("sorter", parts.sorter)
    # Opens the segments, reads the log to its end, then indexes what the writer has synced.
    indexer = tree.actor("indexer", lambda: parts.indexer(sorter))
    # Group commit: append, fdatasync, ack. A write of a crashed writer may be in the log without
    # being indexed: the indexer starts anew with it and reads the log again.
    writer = tree.actor("writer", lambda: parts.writer(sorter, indexer), shares=indexer)
    # Reads from the log what the writer could not hand over to a slow indexer.
    tree.actor("chaser", lambda: parts.chaser(sorter, indexer), shares=indexer)
    # Asks the upstream about Prewrites that nobody closes, and appends the verdicts.
    resolver = tree.actor("resolver", lambda: parts.resolver(sorter, writer))
    # Asks the other Pumps about Commits that came at or below resolved_ts.
    verifier = tree.actor("verifier", lambda: parts.verifier(sorter, indexer))
    if parts.oracle is not None:
        # Fresh timestamps of the oracle while nobody writes.
        oracle = parts.oracle
        tree.actor("faker", lambda: parts.faker(oracle, sorter, writer))
    # The Drainers' long polls.
    puller = tree.actor("puller", lambda: parts.puller(sorter))
    # Deletes what is old and read by everybody who is registered.
    gc = tree.actor("gc", lambda: parts.gc(sorter, puller, indexer))
    # The ways in: bytes become messages to writer, puller and sorter.
    if parts.grpc_addresses:
        tree.actor("grpc", lambda: parts.grpc_edge(sorter, writer))
    tree.actor("nats", lambda: parts.nats_edge(sorter, writer, verifier, puller, gc))
    # What people ask over HTTP.
    http = tree.actor("http", lambda: parts.http_edge(puller))
    tree.route("GET", "/drainers", drainers(http))
    tree.route("GET", "/debug/binlog/{ts}", binlog(http))
    tree.route("POST", "/debug/gc/trigger", collect(gc))
    # Looks for a tombstone of ours, and what lies above it.
    keeper = tree.actor("stranded", parts.stranded_keeper)
    # Joins the cluster once all of it serves; says good-bye first.
    tree.actor(
        "membership",
        lambda: parts.membership(sorter, resolver, verifier, writer, puller, gc, keeper),
    )
    if (own := parts.adopts_beside) is not None:
        # Drains slots that nobody serves.
        tree.actor("adopter", lambda: parts.adopter(own, adopt))
    return tree
