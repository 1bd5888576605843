"""How each actor of the Pump is made, from the configuration, the ports, and what they share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import structlog

from tidelog.actor import Ref
from tidelog.errors import Corrupt, DiskFull
from tidelog.membership import Membership
from tidelog.messages import PUMP
from tidelog.oracle import RegistryOracle
from tidelog.ports import IndexStore, Oracle, Ports, TxnStatus
from tidelog.upstream.cluster import TidbCluster
from tidelog_pump.announce import Announcer
from tidelog_pump.config import PumpConfig
from tidelog_pump.edges.control import Controller
from tidelog_pump.edges.http_edge import HttpEdge
from tidelog_pump.edges.nats_edge import NatsEdge
from tidelog_pump.identity import LOCK_FILE, Identity, IdentityKeeper
from tidelog_pump.index.believed_file import BelievedFile
from tidelog_pump.index.census import Census
from tidelog_pump.index.chase import Chase
from tidelog_pump.index.chaser import Chaser, Handover
from tidelog_pump.index.indexer import Indexer, IndexerMessage, locate
from tidelog_pump.index.keeper import IndexKeeper
from tidelog_pump.late.verifier import Verifier, VerifierMessage
from tidelog_pump.leave.leaving import Leaving
from tidelog_pump.log.promised import PromisedFile
from tidelog_pump.log.purge import PurgePoint
from tidelog_pump.log.reserve import Reserve
from tidelog_pump.log.segments import Segments
from tidelog_pump.metrics import INDEX_DROPPED, OWN, Gauges
from tidelog_pump.pull.puller import Puller, PullerMessage
from tidelog_pump.retention.gc_actor import Gc, GcMessage
from tidelog_pump.slots.adopter import Adopted, Adopter
from tidelog_pump.slots.claim import Slot
from tidelog_pump.sort.faker import Faker
from tidelog_pump.sort.resolver import Resolver, ResolverMessage
from tidelog_pump.sort.sorter_actor import SorterActor, SorterMessage
from tidelog_pump.sort.txn_status import BusTxnStatus
from tidelog_pump.stranded.keeper import Admit, KeeperMessage, StrandedKeeper
from tidelog_pump.write.load import Load
from tidelog_pump.write.writer import Writer, WriterMessage

if TYPE_CHECKING:
    from tidelog_pump.edges.grpc_edge import GrpcEdge

log = structlog.get_logger()

INDEX = "kv"
SorterRef: TypeAlias = Ref[SorterMessage]
IndexerRef: TypeAlias = Ref[IndexerMessage]
WriterRef: TypeAlias = Ref[WriterMessage]
PullerRef: TypeAlias = Ref[PullerMessage]
GcRef: TypeAlias = Ref[GcMessage]
KeeperRef: TypeAlias = Ref[KeeperMessage]
ResolverRef: TypeAlias = Ref[ResolverMessage]
VerifierRef: TypeAlias = Ref[VerifierMessage]


class Parts:
    """What the actors share: who we are, the segments (only the writer appends), the index (only
    the indexer writes), and the oracle, None under `follow`. Everything else is messages."""

    def __init__(self, config: PumpConfig, ports: Ports, slot: Slot | None = None) -> None:
        self._config = config
        self._ports = ports
        self._identity = Identity()
        disk = ports.disk
        self._segments = Segments(
            disk, segment_bytes=config.segment_bytes, sync=config.storage.sync_log
        )
        self.grpc_addresses = grpc_addresses(config)
        self.tidb: TidbCluster | None = None
        if config.upstream.pd_urls:
            self.tidb = TidbCluster(config.upstream, ports, config.cluster_id)
        self.oracle = self._oracle()
        self._lock = disk.lock(LOCK_FILE) if slot is None else slot.lock
        adopts = slot is not None and not slot.adopted and config.adopt_after_s > 0
        self.adopts_beside = slot if adopts else None
        if slot is not None:
            self._identity.slot, self._identity.adopted = slot.name, slot.adopted
        self._gauges = Gauges(None) if self._identity.adopted else OWN
        self._reserve = Reserve(disk)
        self._purge = PurgePoint(disk, self._reserve)
        self._promised = PromisedFile(disk)
        self._believed = BelievedFile(
            disk,
            self._segments,
            follow=self.oracle is None,
            skew_ms=int(config.clock_skew_s * 1000),
        )
        self._store = open_index(ports)
        self._load = Load()
        self._chase = Chase()
        self._census = Census()
        self._write_lock = asyncio.Lock()

    def _oracle(self) -> Oracle | None:
        match self._config.oracle:
            case "follow":
                return None
            case "pd" if self.tidb is not None:
                return self.tidb.oracle
        return RegistryOracle(self._ports.bus, self._config.cluster)

    def _txn_status(self) -> TxnStatus:
        if self.tidb is not None:
            return self.tidb.txn_status
        return BusTxnStatus(self._ports.bus, self._config.cluster)

    def identity_keeper(self) -> IdentityKeeper:
        return IdentityKeeper(
            self._ports.disk,
            self._ports.rng,
            None if self._identity.adopted else self._lock,
            self._reserve,
            self._identity,
            self._ports.bus,
            self._config,
        )

    def index_keeper(self) -> IndexKeeper:
        return IndexKeeper(self._store)

    def sorter(self) -> SorterActor:
        return SorterActor(
            self._ports.clock,
            self._ports.rng,
            self.oracle,
            self._promised,
            clock_skew_s=self._config.clock_skew_s,
            locate=lambda start_ts: locate(self._store, start_ts),
            gauges=self._gauges,
        )

    def indexer(self, sorter: SorterRef) -> Indexer:
        return Indexer(
            self._ports.clock,
            self._segments,
            self._store,
            sorter,
            self._purge,
            self._promised,
            self._census,
            self._believed,
            follow=self.oracle is None,
            clock_skew_s=self._config.clock_skew_s,
            buffer_bytes=self._config.index_buffer_bytes,
        )

    def writer(self, sorter: SorterRef, indexer: IndexerRef) -> Writer:
        return Writer(
            self._ports.clock,
            self._ports.disk,
            self._segments,
            self._store,
            Handover(
                self._chase,
                self._write_lock,
                sorter,
                indexer,
                clock=self._ports.clock,
                threshold_s=self._config.storage.slow_write_threshold,
                gauges=self._gauges,
            ),
            self._census,
            self._load,
            cluster_id=self._config.cluster_id,
            storage=self._config.storage,
        )

    def chaser(self, sorter: SorterRef, indexer: IndexerRef) -> Chaser:
        return Chaser(
            self._ports.clock,
            self._segments,
            self._chase,
            self._believed,
            self._write_lock,
            sorter,
            indexer,
            self._gauges,
        )

    def resolver(self, sorter: SorterRef, writer: WriterRef) -> Resolver:
        return Resolver(
            self._ports.clock,
            self._segments,
            self._store,
            self._txn_status(),
            sorter,
            writer,
            cluster_id=self._config.cluster_id,
            resolve_after_s=self._config.resolve_after_s,
            txn_timeout_s=self._config.txn_timeout_s,
        )

    def faker(self, oracle: Oracle, sorter: SorterRef, writer: WriterRef) -> Faker:
        return Faker(
            self._ports.clock,
            oracle,
            self._segments,
            sorter,
            writer,
            cluster_id=self._config.cluster_id,
            interval_s=self._config.gen_binlog_interval,
        )

    def puller(self, sorter: SorterRef) -> Puller:
        ports = self._ports
        return Puller(
            ports.clock, ports.disk, ports.bus, self._segments, self._store, self._purge, sorter
        )

    def gc(self, sorter: SorterRef, puller: PullerRef, indexer: IndexerRef) -> Gc:
        return Gc(
            self._ports,
            self._config.cluster,
            self._segments,
            self._store,
            self._purge,
            sorter,
            puller,
            indexer,
            retention=self._config.retention,
            clock_skew_s=self._config.clock_skew_s,
            gauges=self._gauges,
        )

    def grpc_edge(self, sorter: SorterRef, writer: WriterRef) -> GrpcEdge:
        from tidelog_pump.edges.grpc_edge import (
            GrpcEdge,  # not where gRPC is off: it need not be there
        )

        return GrpcEdge(
            self._ports.clock,
            self._segments,
            self._store,
            self._purge,
            sorter,
            writer,
            self._identity,
            cluster_id=self._config.cluster_id,
            addresses=self.grpc_addresses,
            compress=self._config.grpc_compression == "gzip",
            tls=self._config.security,
        )

    def verifier(self, sorter: SorterRef, indexer: IndexerRef) -> Verifier:
        ports = self._ports
        return Verifier(
            ports.clock,
            ports.bus,
            ports.disk,
            self._reserve,
            self._store,
            self._identity,
            self._purge,
            sorter,
            indexer,
            cluster=self._config.cluster,
        )

    def nats_edge(
        self,
        sorter: SorterRef,
        writer: WriterRef,
        verifier: VerifierRef,
        puller: PullerRef,
        gc: GcRef,
    ) -> NatsEdge:
        controller = Controller(
            self._ports.clock,
            self._identity,
            self._segments,
            self._store,
            self.oracle,
            sorter,
            writer,
            verifier,
            puller,
            gc,
            self._purge,
            cluster_id=self._config.cluster_id,
            clock_skew_s=self._config.clock_skew_s,
        )
        cluster = self._config.cluster
        ports = self._ports
        return NatsEdge(ports.clock, ports.bus, cluster, self._identity, controller, writer, puller)

    def stranded_keeper(self) -> StrandedKeeper:
        return StrandedKeeper(
            self._ports,
            self._config.cluster,
            self._identity,
            self._segments,
            self._store,
            segment_bytes=self._config.segment_bytes,
        )

    def adopter(self, own: Slot, adopt: Callable[[PumpConfig, Slot], Adopted]) -> Adopter:
        config = self._config
        make = partial(adopt, config)
        return Adopter(own, config.cluster, config.adopt_after_s, make, self._identity.undrained)

    def let_go(self) -> None:
        """Of what outlives the actors of an adopted slot, however they ended; of the lock last:
        nobody takes a directory while something in it is open. Of all of it in any case. Raises
        IoFailed of an index that can't be flushed: the next start builds it again."""
        with ExitStack() as last_first:
            last_first.callback(self._lock.release)
            last_first.callback(self._store.close)
            last_first.callback(self._believed.let_go)
            last_first.callback(self._segments.close)

    def http_edge(self, puller: PullerRef) -> HttpEdge:
        cluster = self._config.cluster
        return HttpEdge(self._ports.bus, cluster, self._segments, self._store, puller)

    def membership(
        self,
        sorter: SorterRef,
        resolver: ResolverRef,
        verifier: VerifierRef,
        writer: WriterRef,
        puller: PullerRef,
        gc: GcRef,
        keeper: KeeperRef,
    ) -> Membership:
        announcer = Announcer(
            self._ports.clock,
            self._identity,
            self._config,
            self._load,
            self._segments,
            self._purge,
            resolver,
            verifier,
            Leaving(writer, sorter, kept_s=self._config.retention.age_s),
            puller,
            gc,
            keeper,
        )
        return Membership(
            self._ports,
            self._config.cluster,
            PUMP,
            announcer.describe,
            announcer.on_state,
            cluster_id=self._config.cluster_id,
            heartbeat_s=self._config.heartbeat_interval,
            admit=lambda: keeper.ask(Admit),
            write_file=self._reserve.write_file,
        )


def open_index(ports: Ports) -> IndexStore:
    """One that can't be opened, as after a power loss, is deleted: the indexer finds it empty and
    builds it again from the segments. On a full disk that makes room. The lock of the directory is
    ours by now. Raises DiskFull where somebody else took that room, too."""
    try:
        return ports.open_index(INDEX)
    except (Corrupt, DiskFull) as error:
        INDEX_DROPPED.inc()
        log.warning("the index can't be opened, building it again", error=error.message)
        ports.drop_index(INDEX)
        return ports.open_index(INDEX)


def grpc_addresses(config: PumpConfig) -> list[str]:
    """What the gRPC server binds."""
    addresses = [config.grpc_addr] if config.grpc_addr else []
    return addresses + ([f"unix:{config.socket.removeprefix('unix://')}"] if config.socket else [])
