"""Shows the nodes in PD's etcd, where TiDB and the original's tools look for them.

The registry decides; the entries only tell. Every write names the change that it follows, and is
kept beside the entry, so what an operator's `binlogctl update-pump` put there is never overwritten
unseen, also while no registry ran: it is found at the next look, given as an order where it can be
one, and the truth is written back.
"""

from __future__ import annotations

import contextlib

import msgspec
import structlog

from tidelog.actor import Actor, Nothing, Ref
from tidelog.errors import TidelogError, Unavailable
from tidelog.messages import Nodes, StateRequest
from tidelog.ports import Ports
from tidelog.upstream.etcd import EtcdClient
from tidelog.upstream.pd import PdClient
from tidelog_registry.config import RegistryConfig
from tidelog_registry.lease.tenure import Tenure
from tidelog_registry.mail import DirectoryMail, ListNodes, Operate
from tidelog_registry.metrics import PD_CHANGES
from tidelog_registry.pd.entries import ROOT, Found, PdEntries, Plan

log = structlog.get_logger()

LOOK_S = 2.0
"""The original's heartbeat; a PD that was away is tried as often."""


class PdMirror(Actor[Nothing]):
    """Nobody waits for it: a PD that can't be reached shows in its status, and once in the log."""

    def __init__(
        self, config: RegistryConfig, ports: Ports, tenure: Tenure, directory: Ref[DirectoryMail]
    ) -> None:
        """Raises ConfigError."""
        self._clock = ports.clock
        self._tenure = tenure
        self._directory = directory
        self._rpc = ports.open_rpc(config.upstream.security)
        urls, cluster_id = config.upstream.pd_urls, config.cluster_id
        self._pd = PdClient(self._rpc, ports.clock, urls, cluster_id=cluster_id)
        self._etcd = EtcdClient(self._rpc, urls, cluster_id=cluster_id)
        self._entries = PdEntries()
        self._shadows = f"/tidelog/{config.cluster}/"
        self._foreign: list[str] = []
        self._reason = ""

    async def on_start(self) -> None:
        self.spawn(self._keep(), "keep")

    async def on_stop(self) -> None:
        await self._rpc.close()

    def status(self) -> dict[str, object]:
        return {"pd": self._etcd.server, "reason": self._reason, "foreign": self._foreign}

    async def _keep(self) -> None:
        while True:
            try:
                self._tenure.check()
                await self.look()
                said = ""
            except TidelogError as error:
                said = error.message
                self._pd.leave(self._pd.known_leader)
            if said and not self._reason:
                log.warning("the nodes are not shown in PD", reason=said)
            elif self._reason and not said:
                log.info("PD shows the nodes again")
            self._reason = said
            await self._clock.sleep(LOOK_S)

    async def look(self) -> None:
        """Raises ForeignCluster, Unavailable."""
        with contextlib.suppress(Unavailable):  # those that are known will do
            await self._pd.leader()
        self._etcd.ask_among(self._pd.servers)
        await self._etcd.check_cluster()
        found, shadows = await self._under(ROOT), await self._under(self._shadows)
        nodes: Nodes = await self._directory.ask(ListNodes)
        plan = self._entries.plan(nodes.nodes, found, shadows)
        self._tell(plan)
        for wish in plan.wishes:
            await self._order(wish)
        for write in plan.writes:
            self._tenure.check()
            await self._etcd.put_if(
                (ROOT + write.name).encode(),
                msgspec.json.encode(write.entry),
                write.revision,
                beside=((self._shadows + write.name).encode(), msgspec.json.encode(write.shadow)),
            )

    async def _under(self, root: str) -> dict[str, Found]:
        kvs = await self._etcd.under(root.encode())
        return {
            kv.key.decode(errors="replace")[len(root) :]: Found(kv.value, kv.mod_revision)
            for kv in kvs
        }

    def _tell(self, plan: Plan) -> None:
        for name in plan.odd:
            PD_CHANGES.labels("put back").inc()
            log.warning("an entry in PD was deleted or is none, and is written anew", entry=name)
        for name in plan.old:
            PD_CHANGES.labels("taken over").inc()
            log.info("an entry in PD that was there before is ours now", entry=name)
        for name in sorted(set(plan.foreign) - set(self._foreign)):
            PD_CHANGES.labels("foreign").inc()
            log.warning(
                "another node of that id is listed in PD, and is left there",
                entry=name,
                hint="once it is gone for good: binlogctl update-pump -state offline",
            )
        self._foreign = plan.foreign

    async def _order(self, wish: StateRequest) -> None:
        about = {"node": wish.node, "kind": wish.kind, "action": wish.action}
        try:
            await self._directory.ask(lambda reply: Operate(wish, reply))
        except TidelogError as error:
            PD_CHANGES.labels("refused").inc()
            log.warning("a state written in PD can't be had", reason=str(error), **about)
        else:
            PD_CHANGES.labels("ordered").inc()
            log.info("a state written in PD is taken as an order", **about)
