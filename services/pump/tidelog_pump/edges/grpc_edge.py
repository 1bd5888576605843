"""The gRPC edge: tipb's Pump service on TCP and on a unix socket (section 6).

Raw bytes in and out: a request is parsed once, its payload is a view into it. Only calls actors.

What it holds at most: a connection has STREAMS calls under way, further ones wait at their caller;
all connections together CALLS, beyond which gRPC itself refuses. Bodies that wait for the writer
(its mailbox takes 64 MiB of them) sum up to WAITING_BYTES or one that is larger, further ones are
refused as Overloaded, so that a TiDB tries another Pump or again. Those of callers that went away
count, too, but for what came alone and lies in the mailbox by then. gRPC hands a body over only
when all of it is there: what is still being received is bounded by CALLS and the 2 GiB of a message
alone, for grpc.aio has no quota of bytes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import grpc
import structlog
from google.protobuf.message import DecodeError

from tidelog import payload, record
from tidelog.actor import Actor, Nothing, Ref
from tidelog.errors import (
    AnotherNode,
    ConfigError,
    ForeignCluster,
    Overloaded,
    UnparsablePayload,
)
from tidelog.http_admin import reachable
from tidelog.ports import Buffer, Clock, IndexStore
from tidelog.pump_grpc import NODE_KEY
from tidelog.security.tls import TlsFiles
from tidelog.subjects import escape
from tidelog_proto.pump_pb2 import PullBinlogReq, WriteBinlogReq, WriteBinlogResp
from tidelog_pump.edges.gatherer import Gatherer
from tidelog_pump.edges.grpc_pull import PullStreams
from tidelog_pump.edges.grpc_status import status_code, trailing
from tidelog_pump.edges.grpc_tls import check_caller, server_credentials
from tidelog_pump.identity import Identity
from tidelog_pump.log.purge import PurgePoint
from tidelog_pump.log.segments import Segments
from tidelog_pump.metrics import PULL_SECONDS, REFUSED, RPC_SECONDS
from tidelog_pump.sort.sorter_actor import SorterMessage
from tidelog_pump.unforeseen import check_ts, count_fatal, typed
from tidelog_pump.write.writer import Outcome, WriterMessage

log = structlog.get_logger()

GRACE_S = 5.0
SHALLOW_ABOVE = 64 << 10
OPTIONS = (
    ("grpc.max_receive_message_length", record.MAX_PAYLOAD),
    ("grpc.max_send_message_length", record.MAX_PAYLOAD),
    ("grpc.so_reuseport", 0),
)
STREAMS = 1024
CALLS = 8192
WAITING_BYTES = 256 << 20
"""See above; the payload of a WriteBinlog is never copied by us on its way to the disk."""
SERVER_OPTIONS = (*OPTIONS, ("grpc.max_concurrent_streams", STREAMS))
COMPRESSED = (("grpc.default_compression_level", 1),)
"""Of the algorithms a caller accepts; naming one would send it to those who don't, too."""
_OK = WriteBinlogResp().SerializeToString()

Context = grpc.aio.ServicerContext[bytes, bytes]


class GrpcEdge(Actor[Nothing]):
    def __init__(
        self,
        clock: Clock,
        segments: Segments,
        store: IndexStore,
        purge: PurgePoint,
        sorter: Ref[SorterMessage],
        writer: Ref[WriterMessage],
        identity: Identity,
        *,
        cluster_id: int,
        addresses: list[str],
        compress: bool = False,
        tls: TlsFiles | None = None,
    ) -> None:
        """`tls`: of the TCP addresses."""
        self._clock = clock
        self._pulls = PullStreams(clock, segments, store, purge, sorter, lambda: self._ending)
        self._gatherer = Gatherer(clock, writer, cluster_id, self.spawn)
        self._identity = identity
        self._cluster_id = cluster_id
        self._addresses = addresses
        self._compress = compress
        self._tls = tls or TlsFiles()
        self._ending = False
        self._streams = 0
        self._waiting_bytes = 0

    async def on_start(self) -> None:
        options = (*SERVER_OPTIONS, *(COMPRESSED if self._compress else ()))
        server = grpc.aio.server(options=options, maximum_concurrent_rpcs=CALLS)
        server.add_generic_rpc_handlers((self._handlers(),))
        credentials = server_credentials(self._tls) if self._tls.on else None
        for address in self._addresses:
            try:
                if credentials is None or address.startswith("unix:"):
                    port = server.add_insecure_port(address)
                else:
                    port = server.add_secure_port(address, credentials)
            except RuntimeError as error:
                raise ConfigError(
                    f"gRPC can't listen on {address}: {error}",
                    hint="another process does, or it is no address of this machine: change "
                    "grpc-addr or socket",
                ) from error
            if not address.startswith("unix:"):
                host = address.rpartition(":")[0].strip("[]")
                # gRPC's `::` takes IPv4, too, which every reader has.
                host = "0.0.0.0" if host == "::" else host  # noqa: S104 (looked up, not bound)
                self._identity.address = f"{reachable(host)}:{port}"
        try:
            await server.start()
        except BaseException:
            await server.stop(None)
            raise
        self.spawn(self._stop_at_end(server), "server")

    def _handlers(self) -> grpc.GenericRpcHandler[bytes, bytes]:
        write = grpc.unary_unary_rpc_method_handler(self._write_binlog)
        pull = grpc.unary_stream_rpc_method_handler(self._pull_binlogs)
        return grpc.method_handlers_generic_handler(
            "binlog.Pump", {"WriteBinlog": write, "PullBinlogs": pull}
        )

    async def _stop_at_end(self, server: grpc.aio.Server) -> None:
        """However this actor ends. Streams end by themselves, not by a cancellation (G24)."""
        try:
            await asyncio.Event().wait()
        finally:
            self._ending = True
            await server.stop(GRACE_S)

    def status(self) -> dict[str, object]:
        return {
            "bound": self._identity.address,
            "streams": self._streams,
            "bytes": self._waiting_bytes + self._gatherer.left_bytes,
            "sending_bytes": self._pulls.sending_bytes,
        }

    async def _write_binlog(self, request: bytes, context: Context) -> bytes:
        began = self._clock.monotonic()
        try:
            self._check_caller(context)
            self._check_meant(context)
            error = await self._write(request)
        except Exception as raised:  # noqa: BLE001 (every caller gets a typed answer)
            error = typed(raised, "grpc")
        RPC_SECONDS["succ" if error is None else "fail"].observe(self._clock.monotonic() - began)
        if error is None:
            return _OK
        context.set_code(status_code(error))
        context.set_details(str(error))
        context.set_trailing_metadata(trailing(error))
        return WriteBinlogResp(errmsg=str(error)).SerializeToString()

    def _check_caller(self, context: Context) -> None:
        """Raises Forbidden."""
        if self._tls.cert_allowed_cn:
            check_caller(context.auth_context(), self._tls.cert_allowed_cn)

    def _check_meant(self, context: Context) -> None:
        """Raises AnotherNode: a Commit acked here would be lost to the Pump of its Prewrite."""
        for key, meant in context.invocation_metadata() or ():
            if key == NODE_KEY and meant != escape(self._identity.node):
                raise AnotherNode(f"this is {self._identity.node}, {meant!r} was meant")

    async def _write(self, request: bytes) -> Outcome:
        size, waiting = len(request), self._waiting_bytes + self._gatherer.left_bytes
        if waiting and waiting + size > WAITING_BYTES:
            REFUSED.labels(Overloaded.__name__).inc()
            return Overloaded(f"{waiting} bytes wait to be written")
        self._waiting_bytes += size
        try:
            cluster_id, binlog = parse_write(request)
            return await self._gatherer.write(cluster_id, binlog)
        finally:
            self._waiting_bytes -= size

    async def _pull_binlogs(self, request: bytes, context: Context) -> AsyncIterator[bytes]:
        self._streams += 1
        began, label = self._clock.monotonic(), "succ"
        try:
            self._check_caller(context)
            wanted = PullBinlogReq.FromString(request)
            if wanted.clusterID != self._cluster_id:
                raise ForeignCluster(
                    f"cluster id {wanted.clusterID}, this Pump serves {self._cluster_id}"
                )
            self._identity.check_readable()
            check_ts("the position", wanted.startFrom.offset)
            async with aclosing(self._pulls.responses(wanted.startFrom.offset)) as responses:
                async for response in responses:
                    yield response
        except DecodeError:
            label = "fail"
            context.set_code(grpc.StatusCode.INVALID_ARGUMENT)
        except Exception as raised:  # noqa: BLE001 (every caller gets a typed answer)
            error, label = typed(raised, "grpc"), "fail"
            count_fatal(error)
            log.warning("a PullBinlogs ended", error=str(error))
            context.set_code(status_code(error))
            context.set_details(str(error))
        finally:
            # Who goes away, as every reader does in the end, has had no error.
            PULL_SECONDS[label].observe(self._clock.monotonic() - began)
            self._streams -= 1


def parse_write(request: bytes) -> tuple[int, Buffer]:
    """(cluster id, payload) of a WriteBinlogReq; a large payload stays a view of the request. A
    small one does not: it may be held when the request is counted no more.

    Raises UnparsablePayload.
    """
    if len(request) > SHALLOW_ABOVE:
        cluster_id, binlog = payload.write_request(request)
        return cluster_id, binlog if len(binlog) > SHALLOW_ABOVE else bytes(binlog)
    try:
        parsed = WriteBinlogReq.FromString(request)
    except DecodeError as error:
        raise UnparsablePayload("the request is no WriteBinlogReq") from error
    return parsed.clusterID, parsed.payload
