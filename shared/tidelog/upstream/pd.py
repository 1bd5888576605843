"""PD, a cluster of three or five servers of which one leads: who that is, and what it is asked."""

from __future__ import annotations

from typing import Protocol, TypeAlias, TypeVar

from google.protobuf.message import DecodeError, Message

from tidelog.errors import ForeignCluster, Unavailable
from tidelog.ports import Clock
from tidelog.upstream.memcomparable import encode_bytes
from tidelog.upstream.pd_urls import addresses
from tidelog.upstream.rpc import Duplex, Rpc, RpcFailed
from tidelog_proto.metapb_pb2 import Peer, Region, Store
from tidelog_proto.pdpb_pb2 import (
    OK,
    GetGCSafePointRequest,
    GetGCSafePointResponse,
    GetMembersRequest,
    GetMembersResponse,
    GetRegionRequest,
    GetRegionResponse,
    GetStoreRequest,
    GetStoreResponse,
    RequestHeader,
    ResponseHeader,
)

SERVICE = "/pdpb.PD/"
TRY_S = 1.0
"""A server that says nothing for so long is left for another one."""
ASK_S = 5.0
PAUSE_S = (0.05, 0.5)
"""Between two tries: an election takes some seconds."""
MAX_SERVERS = 32

M = TypeVar("M", bound=Message)
Answer = TypeVar("Answer", GetRegionResponse, GetStoreResponse, GetGCSafePointResponse)
Question: TypeAlias = GetRegionRequest | GetStoreRequest | GetGCSafePointRequest


class Headed(Protocol):
    """An answer of PD."""

    @property
    def header(self) -> ResponseHeader: ...


class PdClient:
    """`cluster_id` 0 takes the cluster that answers first, and holds the others to it."""

    def __init__(
        self, rpc: Rpc, clock: Clock, urls: str, *, cluster_id: int = 0, ask_s: float = ASK_S
    ) -> None:
        self._rpc = rpc
        self._clock = clock
        self._named = addresses(urls)
        self._servers = self._named
        self._ask_s = ask_s
        self._leader = ""
        self._next = 0
        self.cluster_id = cluster_id

    @property
    def header(self) -> RequestHeader:
        return RequestHeader(cluster_id=self.cluster_id)

    @property
    def known_leader(self) -> str:
        """As far as it is known now; empty while nobody is known to lead."""
        return self._leader

    @property
    def servers(self) -> tuple[str, ...]:
        """Those that were named, and the members that were learned when the leader was."""
        return self._servers

    async def leader(self) -> str:
        """Its address; every server is asked once, the one that knew last first. Raises
        ForeignCluster, Unavailable."""
        said = "no server named one"
        for _ in range(len(self._servers)):
            if self._leader:
                break
            server = self._servers[self._next % len(self._servers)]
            try:
                await self._look(server)
            except Unavailable as error:
                said = f"{server}: {error.message}"
            if not self._leader:
                self._next += 1
        if not self._leader:
            raise Unavailable(
                f"no PD that leads was found ({said})", hint="see pd-urls, and `pd-ctl member`"
            )
        return self._leader

    def leave(self, leader: str) -> None:
        """It didn't do what a leader does: look anew, and ask another server who leads."""
        if self._leader == leader:
            self._leader = ""
            self._next += 1

    async def _look(self, server: str) -> None:
        answer = parsed(
            GetMembersResponse,
            await self._rpc.call(
                server,
                SERVICE + "GetMembers",
                GetMembersRequest(header=self.header).SerializeToString(),
                timeout_s=TRY_S,
            ),
        )
        self.check(answer)
        urls = [url for member in answer.members for url in member.client_urls]
        found = dict.fromkeys([*self._named, *(addresses(",".join(urls)) if urls else ())])
        self._servers = tuple(found)[:MAX_SERVERS]
        if answer.leader.client_urls:
            self._leader = addresses(answer.leader.client_urls[0])[0]

    def check(self, answer: Headed) -> None:
        """Raises ForeignCluster, and Unavailable where it says that it can't."""
        header = answer.header
        if header.error.type != OK:
            raise Unavailable(f"PD says: {header.error.message}")
        self.cluster_id = self.cluster_id or header.cluster_id
        if header.cluster_id != self.cluster_id:
            raise ForeignCluster(
                f"the PD is of cluster {header.cluster_id}, this one is {self.cluster_id}",
                hint="point pd-urls at the cluster's own PD, or set cluster-id",
            )

    async def region(self, key: bytes) -> tuple[Region, Peer]:
        """That holds this key, and the peer that leads it (id 0: none is known). Its bounds are
        memcomparable, as PD keeps the keys of transactions. Raises ForeignCluster, Unavailable."""
        request = GetRegionRequest(header=self.header, region_key=encode_bytes(key))
        answer = await self._ask("GetRegion", request, GetRegionResponse)
        if not answer.region.id:
            raise Unavailable("PD knows no region of that key yet")
        return answer.region, answer.leader

    async def store(self, store_id: int) -> Store:
        """Raises ForeignCluster, Unavailable."""
        request = GetStoreRequest(header=self.header, store_id=store_id)
        return (await self._ask("GetStore", request, GetStoreResponse)).store

    async def gc_safe_point(self) -> int:
        """Up to here versions may have been collected, and no transaction that began before is
        under way any more. Raises ForeignCluster, Unavailable."""
        request = GetGCSafePointRequest(header=self.header)
        return (await self._ask("GetGCSafePoint", request, GetGCSafePointResponse)).safe_point

    async def _ask(self, method: str, request: Question, kind: type[Answer]) -> Answer:
        """Of the leader, whoever that comes to be within `ask_s`."""
        deadline = self._clock.monotonic() + self._ask_s
        pause_s = PAUSE_S[0]
        while True:
            try:
                leader = await self.leader()
                request.header.cluster_id = self.cluster_id
                return await self._once(leader, method, request, kind)
            except Unavailable:
                if self._clock.monotonic() + pause_s > deadline:
                    raise
            await self._clock.sleep(pause_s)
            pause_s = min(2 * pause_s, PAUSE_S[1])

    async def _once(
        self,
        leader: str,
        method: str,
        request: Question,
        kind: type[Answer],
    ) -> Answer:
        try:
            body = await self._rpc.call(
                leader, SERVICE + method, request.SerializeToString(), timeout_s=TRY_S
            )
        except RpcFailed:
            self.leave(leader)
            raise
        answer = parsed(kind, body)
        self.check(answer)
        return answer

    def timestamps(self, leader: str) -> Duplex:
        """The stream on which it gives them: TsoRequest, TsoResponse."""
        return self._rpc.stream(leader, SERVICE + "Tso")


def parsed(kind: type[M], body: bytes) -> M:
    """Raises Unavailable."""
    try:
        return kind.FromString(body)
    except DecodeError as error:
        raise Unavailable(f"an answer that is no {kind.DESCRIPTOR.full_name}") from error
