"""An etcd of several members: keys with the revision of their last change, and fenced puts."""

from __future__ import annotations

from tests.unit.upstream.fake_net import Answer, FakeNet
from tidelog.upstream.etcd import CLUSTER_ID_KEY
from tidelog.upstream.rpc import RpcFailed
from tidelog_proto.etcdserverpb_pb2 import (
    KeyValue,
    RangeRequest,
    RangeResponse,
    ResponseHeader,
    TxnRequest,
    TxnResponse,
)


async def _unknown(method: str, _: bytes) -> bytes:
    raise RpcFailed(f"unknown method {method}", status="UNIMPLEMENTED")


class FakeEtcd:
    """Every member answers for the whole. `cluster_id`: what PD keeps in it, 0 = nothing. A PD that
    is at an address already goes on answering for itself."""

    def __init__(self, net: FakeNet, *addresses: str, cluster_id: int) -> None:
        self.net = net
        self.addresses = addresses
        self.keys: dict[bytes, KeyValue] = {}
        self.revision = 1
        if cluster_id:
            self.put((CLUSTER_ID_KEY, cluster_id.to_bytes(8, "big")))
        for address in addresses:
            net.servers[address] = self._beside(net.servers.get(address, _unknown))

    @property
    def urls(self) -> str:
        return ",".join(f"http://{address}" for address in self.addresses)

    def put(self, *pairs: tuple[bytes, bytes]) -> None:
        """One change."""
        self.revision += 1
        for key, value in pairs:
            self.keys[key] = KeyValue(key=key, value=value, mod_revision=self.revision)

    def _beside(self, pd: Answer) -> Answer:
        async def answer(method: str, request: bytes) -> bytes:
            if method == "Range":
                return self._range(RangeRequest.FromString(request)).SerializeToString()
            if method == "Txn":
                return self._txn(TxnRequest.FromString(request)).SerializeToString()
            return await pd(method, request)

        return answer

    def _range(self, asked: RangeRequest) -> RangeResponse:
        end = asked.range_end or asked.key + b"\0"
        found = [kv for key, kv in sorted(self.keys.items()) if asked.key <= key < end]
        most = asked.limit or len(found)
        return RangeResponse(header=self._header(), kvs=found[:most], more=len(found) > most)

    def _txn(self, asked: TxnRequest) -> TxnResponse:
        fits = all(self._revision_of(one.key) == one.mod_revision for one in asked.compare)
        if fits:
            self.put(*((op.request_put.key, op.request_put.value) for op in asked.success))
        return TxnResponse(header=self._header(), succeeded=fits)

    def _revision_of(self, key: bytes) -> int:
        return self.keys[key].mod_revision if key in self.keys else 0

    def _header(self) -> ResponseHeader:
        return ResponseHeader(revision=self.revision)
