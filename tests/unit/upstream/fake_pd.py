"""A PD of several servers, of which one leads and gives timestamps."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from tests.unit.upstream.fake_net import FakeNet
from tidelog.upstream.rpc import RpcFailed
from tidelog_proto.metapb_pb2 import Peer, Region, Store
from tidelog_proto.pdpb_pb2 import (
    REGION_NOT_FOUND,
    Error,
    GetGCSafePointResponse,
    GetMembersResponse,
    GetRegionRequest,
    GetRegionResponse,
    GetStoreRequest,
    GetStoreResponse,
    Member,
    ResponseHeader,
    Timestamp,
    TsoRequest,
    TsoResponse,
)

CLUSTER = 7613


class FakePd:
    """`believes`: whom a server takes for the leader, where that is not the one who leads.
    `wall_ms`: the clock that its timestamps follow; they stand at one millisecond without."""

    def __init__(
        self, net: FakeNet, *addresses: str, wall_ms: Callable[[], int] = lambda: 1000
    ) -> None:
        self.net = net
        self._wall_ms = wall_ms
        self.addresses: list[str] = []
        self.leader = ""
        self.cluster_id = CLUSTER
        self.believes: dict[str, str] = {}
        self.physical, self.logical = wall_ms(), 0
        self.counts: list[int] = []
        self.regions: list[tuple[Region, Peer]] = []
        self.stores: dict[int, Store] = {}
        self.safe_point = 0
        self.safe_point_after = 0
        """What it is once it was asked for."""
        for address in addresses:
            net.servers[address] = self.server(address)

    @property
    def urls(self) -> str:
        return ",".join(f"http://{address}" for address in self.addresses)

    def server(self, address: str) -> Callable[[str, bytes], Awaitable[bytes]]:
        self.addresses.append(address)
        self.leader = self.leader or address

        async def answer(method: str, request: bytes) -> bytes:
            if method == "GetMembers":
                return self._members(address)
            if address != self.leader:
                raise RpcFailed("not leader")
            handler: Callable[[bytes], bytes] = getattr(self, f"_{method}")
            return handler(request)

        return answer

    def _header(self) -> ResponseHeader:
        return ResponseHeader(cluster_id=self.cluster_id)

    def _members(self, address: str) -> bytes:
        leader = self.believes.get(address, self.leader)
        members = [Member(client_urls=[f"http://{one}"]) for one in self.addresses]
        led = Member(client_urls=[f"http://{leader}"]) if leader else None
        return GetMembersResponse(
            header=self._header(), members=members, leader=led
        ).SerializeToString()

    def _Tso(self, request: bytes) -> bytes:  # noqa: N802 (the method's name)
        count = TsoRequest.FromString(request).count
        self.counts.append(count)
        if self._wall_ms() > self.physical:
            self.physical, self.logical = self._wall_ms(), 0
        self.logical += count
        given = Timestamp(physical=self.physical, logical=self.logical)
        return TsoResponse(header=self._header(), count=count, timestamp=given).SerializeToString()

    def _GetRegion(self, request: bytes) -> bytes:  # noqa: N802
        key = GetRegionRequest.FromString(request).region_key
        for region, leader in self.regions:
            if region.start_key <= key and (not region.end_key or key < region.end_key):
                answer = GetRegionResponse(header=self._header(), region=region, leader=leader)
                return answer.SerializeToString()
        error = Error(type=REGION_NOT_FOUND, message="region not found")
        header = ResponseHeader(cluster_id=self.cluster_id, error=error)
        return GetRegionResponse(header=header).SerializeToString()

    def _GetStore(self, request: bytes) -> bytes:  # noqa: N802
        store = self.stores[GetStoreRequest.FromString(request).store_id]
        return GetStoreResponse(header=self._header(), store=store).SerializeToString()

    def _GetGCSafePoint(self, request: bytes) -> bytes:  # noqa: N802
        told, self.safe_point = self.safe_point, max(self.safe_point, self.safe_point_after)
        return GetGCSafePointResponse(header=self._header(), safe_point=told).SerializeToString()
