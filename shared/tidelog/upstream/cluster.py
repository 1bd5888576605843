"""One TiDB cluster: what a service asks of it, over one set of connections."""

from __future__ import annotations

from tidelog.actor import Actor, Nothing
from tidelog.ports import Ports
from tidelog.upstream.config import UpstreamConfig
from tidelog.upstream.meta_history import MetaHistory
from tidelog.upstream.pd import PdClient
from tidelog.upstream.pd_oracle import PdOracle
from tidelog.upstream.tikv import TikvClient
from tidelog.upstream.tikv_scan import TikvScan
from tidelog.upstream.tikv_txn_status import TikvTxnStatus


class TidbCluster:
    """`cluster_id` 0 takes the one that the first PD says it is of."""

    def __init__(self, config: UpstreamConfig, ports: Ports, cluster_id: int) -> None:
        """Raises ConfigError."""
        clock = ports.clock
        self._rpc = ports.open_rpc(config.security)
        self._pd = PdClient(self._rpc, clock, config.pd_urls, cluster_id=cluster_id)
        tikv = TikvClient(self._rpc, self._pd, clock)
        self.oracle = PdOracle(self._pd, clock)
        self.txn_status = TikvTxnStatus(tikv, self._pd, self.oracle)
        self.history = MetaHistory(TikvScan(tikv, self.oracle, clock), self.oracle)

    def status(self) -> dict[str, object]:
        return {"pd": self._pd.known_leader, "cluster_id": self._pd.cluster_id}

    async def close(self) -> None:
        self.oracle.close()
        await self._rpc.close()


class TidbClusterKeeper(Actor[Nothing]):
    """Shows what is known of the cluster, and lets go of its connections at the end."""

    def __init__(self, cluster: TidbCluster) -> None:
        self._cluster = cluster

    async def on_stop(self) -> None:
        await self._cluster.close()

    def status(self) -> dict[str, object]:
        return self._cluster.status()
