"""PD and TiKV of the TiDB cluster whose binlogs the Pumps take: who answers, of which cluster?"""

from __future__ import annotations

import asyncio

from tidelog.errors import TidelogError
from tidelog.ports import Clock
from tidelog.timestamps import physical_ms
from tidelog.upstream.meta_history import MetaHistory
from tidelog.upstream.pd import PdClient
from tidelog.upstream.pd_oracle import PdOracle
from tidelog.upstream.pd_urls import addresses
from tidelog.upstream.rpc import Rpc
from tidelog.upstream.tikv import TikvClient
from tidelog.upstream.tikv_scan import TikvScan
from tidelog_cli.doctor.clocks import skew
from tidelog_cli.doctor.finding import About, Finding

CHECK = "upstream"
ASK_S = 3.0
"""PD and TiKV are asked for so long each: both, within what a check may take."""


async def check_upstream(
    rpc: Rpc, clock: Clock, urls: str, *, cluster_id: int, asks_sql: bool
) -> list[Finding]:
    """`cluster_id`: that the services hold it to; 0 = any. `asks_sql`: the TiDB itself is looked
    at, too. Raises ConfigError."""
    named = addresses(urls)
    members = await asyncio.gather(*(_member(rpc, clock, one, cluster_id) for one in named))
    found = [*members, *await _timestamps(rpc, clock, urls, cluster_id)]
    if not asks_sql:
        says = "async commit, 1PC, binlogs and tables without keys are seen by SQL only"
        found.append(About(CHECK, "TiDB").unknown(says, "name a TiDB of it by --source"))
    return found


async def _member(rpc: Rpc, clock: Clock, address: str, cluster_id: int) -> Finding:
    """One that was named: does it answer, of which cluster is it, whom does it take for leader?"""
    about = About(CHECK, f"PD {address}")
    pd = PdClient(rpc, clock, address, cluster_id=cluster_id)
    try:
        leader = await pd.leader()
    except TidelogError as error:
        return about.failed(error)
    return about.ok(f"of cluster {pd.cluster_id}, led by {leader}")


async def _timestamps(rpc: Rpc, clock: Clock, urls: str, cluster_id: int) -> list[Finding]:
    """Of whoever leads, then TiKV by a read at one of them."""
    pd = PdClient(rpc, clock, urls, cluster_id=cluster_id, ask_s=ASK_S)
    oracle = PdOracle(pd, clock, timeout_s=ASK_S)
    about = About(CHECK, "timestamps of PD")
    try:
        ts = await oracle.fresh(0)
        stood = skew("PD", physical_ms(ts), clock.wall_ms())
        found = [about.ok(f"its leader {pd.known_leader} gives them"), stood]
        return [*found, await _tikv(rpc, clock, pd, oracle)]
    except TidelogError as error:
        return [about.failed(error)]
    finally:
        oracle.close()


async def _tikv(rpc: Rpc, clock: Clock, pd: PdClient, oracle: PdOracle) -> Finding:
    about = About(CHECK, "TiKV")
    scan = TikvScan(TikvClient(rpc, pd, clock, ask_s=ASK_S), oracle, clock)
    try:
        async for jobs in MetaHistory(scan, oracle, page=1).jobs(0):
            return about.ok(f"it holds the DDL history, from job {jobs[0].id} on")
    except TidelogError as error:
        return about.failed(error)
    says = "it holds no DDL job: nothing was ever made in this cluster, or it is not TiDB's"
    return about.warning(says, "see whether --upstream names the PD that the TiDB has as --path")
