"""PD's etcd, as little of it as a mirror needs: keys under a prefix, and a put that is fenced.

etcd's own gRPC over `Ports.open_rpc`, so that it has our TLS and can be simulated; aetcd would
bring its own channels, tasks and time.
"""

from __future__ import annotations

from typing import TypeVar

from google.protobuf.message import Message

from tidelog.errors import ForeignCluster, Unavailable
from tidelog.upstream.pd import parsed
from tidelog.upstream.pd_urls import addresses
from tidelog.upstream.rpc import Rpc, RpcFailed
from tidelog_proto.etcdserverpb_pb2 import (
    Compare,
    KeyValue,
    PutRequest,
    RangeRequest,
    RangeResponse,
    RequestOp,
    TxnRequest,
    TxnResponse,
)

M = TypeVar("M", bound=Message)
SERVICE = "/etcdserverpb.KV/"
TRY_S = 1.0
CLUSTER_ID_KEY = b"/pd/cluster_id"
"""Where PD keeps its cluster id, eight bytes, the highest first."""
MAX_KEYS = 1000


class EtcdClient:
    """Any member answers for the whole: one that fails is left for the next. `cluster_id` 0 takes
    the cluster that answers first, and holds the others to it."""

    def __init__(self, rpc: Rpc, urls: str, *, cluster_id: int = 0) -> None:
        """Raises ConfigError."""
        self._rpc = rpc
        self._servers = addresses(urls)
        self._at = 0
        self.cluster_id = cluster_id

    def ask_among(self, servers: tuple[str, ...]) -> None:
        """Its members, one at least, from now on."""
        at = self.server
        self._servers = servers
        self._at = servers.index(at) if at in servers else 0

    @property
    def server(self) -> str:
        return self._servers[self._at % len(self._servers)]

    async def check_cluster(self) -> None:
        """Raises ForeignCluster, Unavailable (also where no PD has kept its id yet)."""
        request = RangeRequest(key=CLUSTER_ID_KEY)
        kvs = (await self._ask("Range", request, RangeResponse)).kvs
        if not kvs or len(kvs[0].value) != 8:
            raise Unavailable(
                f"the etcd at {self.server} is no PD's",
                hint="see pd-urls: it has no /pd/cluster_id",
            )
        found = int.from_bytes(kvs[0].value, "big")
        self.cluster_id = self.cluster_id or found
        if found != self.cluster_id:
            raise ForeignCluster(
                f"the PD is of cluster {found}, this one is {self.cluster_id}",
                hint="point pd-urls at the cluster's own PD, or set cluster-id",
            )

    async def under(self, prefix: bytes) -> list[KeyValue]:
        """All keys that begin so, in order. Raises Unavailable, of more than MAX_KEYS too."""
        end = prefix[:-1] + bytes([prefix[-1] + 1])
        request = RangeRequest(key=prefix, range_end=end, limit=MAX_KEYS)
        answer = await self._ask("Range", request, RangeResponse)
        if answer.more:
            raise Unavailable(f"more than {MAX_KEYS} keys under {prefix.decode()}")
        return list(answer.kvs)

    async def put_if(
        self,
        key: bytes,
        value: bytes,
        mod_revision: int,
        *,
        beside: tuple[bytes, bytes] | None = None,
    ) -> int:
        """Put it if the key's last change is still that one (0: there is none), and with it a key
        and its value `beside`: both have one revision then. Which one; 0 = it was changed
        meanwhile, and nothing is written. Raises Unavailable: it may be written then."""
        fence = Compare(
            result=Compare.EQUAL, target=Compare.MOD, key=key, mod_revision=mod_revision
        )
        pairs = [(key, value)] if beside is None else [(key, value), beside]
        puts = [RequestOp(request_put=PutRequest(key=k, value=v)) for k, v in pairs]
        answer = await self._ask("Txn", TxnRequest(compare=[fence], success=puts), TxnResponse)
        return answer.header.revision if answer.succeeded else 0

    async def _ask(self, method: str, request: Message, kind: type[M]) -> M:
        try:
            body = await self._rpc.call(
                self.server, SERVICE + method, request.SerializeToString(), timeout_s=TRY_S
            )
        except RpcFailed:
            self._at += 1
            raise
        return parsed(kind, body)
