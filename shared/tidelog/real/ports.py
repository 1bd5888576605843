"""Assemble a service's Ports on the machine."""

from __future__ import annotations

from collections.abc import Callable

from tidelog.config import ServiceConfig, redacted_url
from tidelog.ddl_history import open_history
from tidelog.downstream import Downstream, DownstreamOptions
from tidelog.errors import ConfigError
from tidelog.ports import Bus, IndexStore, Ports
from tidelog.real.clock import RealClock
from tidelog.real.disk import RealDisk
from tidelog.real.grpc_channel import require_grpc
from tidelog.real.rng import RealRng
from tidelog.security.tls import TlsFiles
from tidelog.upstream.rpc import Rpc

OpenDownstream = Callable[[DownstreamOptions], Downstream]


def no_downstream(options: DownstreamOptions) -> Downstream:
    """For services that write to no database; `tidelog` itself can't import those that do."""
    raise ConfigError(
        f"this service has no downstream, so {redacted_url(options.url)} can't be opened"
    )


def real_ports(
    config: ServiceConfig,
    disk: RealDisk,
    bus: Bus,
    *,
    open_downstream: OpenDownstream = no_downstream,
) -> Ports:
    """`disk` is the service's data directory; an index's path is relative to it."""

    def open_index(path: str) -> IndexStore:
        try:
            from tidelog.real.index import RocksIndex
        except ImportError as error:
            raise ConfigError(
                "rocksdict is not installed", hint="pip install '.[pump]' in a checkout of Tidelog"
            ) from error
        place = disk.path(path)
        disk.mkdir(path)
        return RocksIndex(place)

    def drop_index(path: str) -> None:
        disk.drop(path)

    def open_rpc(tls: TlsFiles) -> Rpc:
        require_grpc()
        from tidelog.real.grpc_rpc import GrpcRpc

        return GrpcRpc(tls)

    def within(path: str) -> Ports:
        return real_ports(config, RealDisk(disk.path(path)), bus, open_downstream=open_downstream)

    return Ports(
        clock=RealClock(),
        rng=RealRng(),
        disk=disk,
        bus=bus,
        open_index=open_index,
        drop_index=drop_index,
        open_downstream=open_downstream,
        open_ddl_history=lambda url, tls: open_history(url, bus, config.cluster, tls),
        open_rpc=open_rpc,
        within=within,
    )
