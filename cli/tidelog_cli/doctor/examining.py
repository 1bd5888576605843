"""All that a doctor looks at, gathered from where it is: the edge around the checks."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import msgspec

from tidelog.downstreams.target import Target
from tidelog.errors import Refused, Unavailable
from tidelog.messages import Nodes
from tidelog.ports import Bus, Clock
from tidelog.real.grpc_rpc import GrpcRpc
from tidelog.upstream.config import UpstreamConfig
from tidelog_cli.connect import connected
from tidelog_cli.doctor import (
    config_files,
    downstream,
    identity,
    nats_server,
    nodes,
    ring,
    services,
    source,
    streams,
    upstream,
)
from tidelog_cli.doctor.examination import Check, examine
from tidelog_cli.doctor.finding import About, Finding
from tidelog_cli.doctor.server_edge import monitoring_url
from tidelog_cli.state_file import TopologyState


class Asked(msgspec.Struct, frozen=True):
    """`topology` None: only files and databases are looked at. URLs "" = not looked at."""

    topology: TopologyState | None
    directory: Path | None = None
    monitoring: str = ""
    configs: Sequence[str] = ()
    downstream: str = ""
    source: str = ""
    upstream: UpstreamConfig = UpstreamConfig()


async def look(asked: Asked, clock: Clock) -> list[Finding]:
    """What is found: files and topology first, then databases, which loopback is compared with."""
    first = [Check(config_files.CHECK, lambda: _configs(asked.configs))]
    told: list[services.Told] = []
    if asked.topology is not None:
        first += _topology(asked.topology, asked, clock, told)
    found = await examine(first)
    loops = ring.loops(told)
    found += ring.directions(loops)
    return found + await examine(_databases(asked, clock, loops))


async def _configs(given: Sequence[str]) -> list[Finding]:
    return [config_files.check(one) for one in given]


def _topology(
    state: TopologyState, asked: Asked, clock: Clock, told: list[services.Told]
) -> list[Check]:
    monitoring = monitoring_url(asked.monitoring, state.nats, asked.directory)

    async def sync() -> list[Finding]:
        return await nats_server.check_sync(monitoring, clock.wall_ms())

    async def cluster() -> list[Finding]:
        return await _cluster(state, clock, told)

    return [
        Check(nats_server.CHECK, lambda: nats_server.check_server(state.nats)),
        Check(nats_server.CHECK, sync),
        Check(nodes.CHECK, cluster),
    ]


async def _cluster(state: TopologyState, clock: Clock, told: list[services.Told]) -> list[Finding]:
    """The registry, and through it everybody else. Raises Unavailable."""
    async with connected(state) as bus:
        try:
            found = await nodes.registry_nodes(bus, state.cluster)
        except (Unavailable, Refused) as error:
            told += await services.ask_all(state.http)
            unanswered = [nodes.unanswered(error, state.cluster)]
            return unanswered + services.judge(told, clock.wall_ms())
        (permitted, feed), asked = await asyncio.gather(
            _over_nats(bus, state, found), services.ask_all(services.addresses(found, state.http))
        )
        told += asked
        now_ms = clock.wall_ms()
        return [
            *nodes.judge(found, state.feed, services.ages_s(told)),
            *permitted,
            *services.judge(told, now_ms),
            *nodes.retention(found, now_ms),
            *feed,
        ]


async def _over_nats(
    bus: Bus, state: TopologyState, found: Nodes
) -> tuple[list[Finding], list[Finding]]:
    """Permissions, and the feed's stream."""
    permitted = await identity.check_identity(bus, state.cluster, found)
    try:
        feed = await streams.check_feed(bus, state.cluster, state.feed, found)
    except (Unavailable, Refused) as error:
        feed = [About(streams.CHECK, state.feed).failed(error)]
    return permitted, feed


def _databases(asked: Asked, clock: Clock, loops: Sequence[ring.Loop]) -> list[Check]:
    async def down() -> list[Finding]:
        target = Target.parse(asked.downstream)
        return await downstream.check_downstream(target, clock.wall_ms(), loops)

    async def up() -> list[Finding]:
        target = Target.parse(asked.source, what="source")
        return await source.check_source(target, clock.wall_ms(), loops)

    async def pd() -> list[Finding]:
        return await _upstream(asked, clock)

    checks = [
        (downstream.CHECK, down, asked.downstream),
        (source.CHECK, up, asked.source),
        (upstream.CHECK, pd, asked.upstream.pd_urls),
    ]
    return [Check(name, work) for name, work, url in checks if url]


async def _upstream(asked: Asked, clock: Clock) -> list[Finding]:
    """Raises ConfigError."""
    rpc = GrpcRpc(asked.upstream.security)
    try:
        return await upstream.check_upstream(
            rpc,
            clock,
            asked.upstream.pd_urls,
            cluster_id=asked.topology.cluster_id if asked.topology is not None else 0,
            asks_sql=bool(asked.source),
        )
    finally:
        await rpc.close()
