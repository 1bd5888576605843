"""Whatever bytes come in: a typed answer to that caller, and the Pump serves on."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any
from unittest.mock import AsyncMock, Mock

import grpc
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import Histogram

from tests.cycles import left_in_cycles
from tests.unit.pump.rig import CLUSTER, NODE, Client, commit, prewrite, start, ts_now
from tidelog import subjects
from tidelog.actor import Reply
from tidelog.errors import (
    BadInput,
    Corrupt,
    IoFailed,
    Unavailable,
    UnparsablePayload,
    error_class,
)
from tidelog.payload import Facts, classify
from tidelog.real.clock import RealClock
from tidelog.sim import World, run
from tidelog.timestamps import TS_MAX, compose
from tidelog_proto.pump_pb2 import Pos, PullBinlogReq, WriteBinlogReq
from tidelog_proto.transport_pb2 import PullFrame, PullRequest, WriteBatch, WriteBatchResult
from tidelog_pump.edges import grpc_edge
from tidelog_pump.edges.gatherer import Gatherer
from tidelog_pump.edges.grpc_edge import GrpcEdge, parse_write
from tidelog_pump.edges.http_edge import parse_ts
from tidelog_pump.log.segments import Segments
from tidelog_pump.metrics import ERRORS, NATS_SECONDS, NOTED, PULL_SECONDS, UNFORESEEN
from tidelog_pump.pull.puller import MAX_ERRORS, MAX_FEEDS
from tidelog_pump.pull.scan import CommitScan
from tidelog_pump.write import intake
from tidelog_pump.write.writer import Append

ROUNDS = 6  # more than the restarts that a supervisor allows


def typed(code: str) -> bool:
    return error_class(code) is not None


def crashes(world: World) -> list[object]:
    pump = world.node(NODE)
    return [*pump.failures, *range(pump.service.restarts_total)]


async def raw(client: Client, verb: str, body: bytes) -> bytes:
    subject = subjects.pump(CLUSTER, NODE, verb)
    return (await client.bus.request(subject, body, timeout_s=client.timeout_s)).data


@pytest.mark.parametrize(
    ("after_ts", "fields"),
    [
        (-5, {}),
        (-(1 << 63), {}),
        (0, {"want_ts": -1}),
        (0, {"commit_ts": -7, "offset": 3}),
        (0, {"offset": 3}),
        (0, {"feed": "f" * 300}),
    ],
)
def test_a_pull_out_of_range_is_refused(after_ts: int, fields: dict[str, Any]) -> None:
    async def main(world: World) -> None:
        _, client = await start(world)
        base = ts_now(world)
        await client.done(prewrite(base), commit(base, base + 5))
        for _ in range(ROUNDS):
            assert (await client.pull(after_ts, **fields)).code == "UnparsablePayload"
        assert (await client.pull(TS_MAX, wait_ms=0)).resolved_ts == base + 5
        assert (await client.pull(TS_MAX, commit_ts=TS_MAX, offset=1)).code == "Purged"
        assert not crashes(world)

    run(main, 1)


def test_a_pull_that_is_refused_is_gone_with_its_error() -> None:
    """Who asks for what was purged asks again and again."""

    async def main(world: World) -> None:
        _, client = await start(world)
        with left_in_cycles() as left:
            for _ in range(3):
                assert (await client.pull(TS_MAX, commit_ts=TS_MAX, offset=1)).code == "Purged"
        assert left["Purged"] == left["PullRequest"] == 0, left

    run(main, 1)


@pytest.mark.parametrize("ts", [-1, TS_MAX + 1, 1 << 70])
def test_an_inspection_out_of_range_is_refused(ts: int) -> None:
    async def main(world: World) -> None:
        _, client = await start(world)
        for _ in range(ROUNDS):
            assert (await client.control("inspect", ts))["code"] == "UnparsablePayload"
        assert (await client.control("inspect", TS_MAX))["state"] == "unknown"
        assert not crashes(world)

    run(main, 2)


@pytest.mark.parametrize(
    "text", ["", "0", "-1", "1.5", "٣", str(TS_MAX + 1), "0" * 19 + "9" * 30, "1" * 5000]
)
def test_a_path_that_is_no_timestamp_is_bad_input(text: str) -> None:
    """Not an error of ours, which is a 500."""
    with pytest.raises(BadInput) as raised:
        parse_ts(text)
    assert raised.value.hint


def test_a_bug_that_a_request_meets_is_that_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(world: World) -> None:
        _, client = await start(world)
        base = ts_now(world)
        await client.done(prewrite(base), commit(base, base + 5))
        before = UNFORESEEN.labels("pull")._value.get()
        with monkeypatch.context() as bug:
            bug.setattr(CommitScan, "payload", lambda *_: 1 // 0)
            for _ in range(ROUNDS):
                frame = await client.pull(0)
                assert (frame.code, "division" in frame.message) == ("InvariantBroken", True)
        assert "division" in world.node(NODE).service.status()["puller"]["errors"]["f"]
        assert [txn.commit_ts for txn in await client.pull_up_to(base + 5)] == [base + 5]
        assert world.node(NODE).service.status()["puller"]["errors"] == {}
        assert UNFORESEEN.labels("pull")._value.get() == before + ROUNDS
        nested = b'{"verb":"status","x":' + b"[" * 100_000
        for _ in range(ROUNDS):
            assert typed(msgspec.json.decode(await raw(client, "control", nested))["code"])
        assert not crashes(world)

    run(main, 3)


def test_a_bug_that_a_payload_meets_is_that_payloads(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(world: World) -> None:
        _, client = await start(world)
        base = ts_now(world)
        poison = prewrite(base + 9)

        def buggy(payload: bytes) -> Facts:
            if payload == poison:
                raise ZeroDivisionError
            return classify(payload)

        with monkeypatch.context() as bug:
            bug.setattr(intake, "classify", buggy)
            for n in range(ROUNDS):
                written = await client.write(
                    prewrite(base + n), poison, commit(base + n, base + 90 + n)
                )
                assert [r.code for r in written] == ["", "InvariantBroken", ""]
        assert len(await client.pull_up_to(base + 90 + ROUNDS - 1)) == ROUNDS
        assert not crashes(world)

    run(main, 6)


def test_the_names_of_feeds_are_bounded() -> None:
    async def main(world: World) -> None:
        _, client = await start(world)
        before = NOTED.labels("feed_not_kept")._value.get()
        for number in range(MAX_FEEDS + 3):
            await client.pull(0, wait_ms=0, feed=f"feed-{number}")
        assert NOTED.labels("feed_not_kept")._value.get() == before + 3
        for number in range(MAX_ERRORS + 3):
            assert (await client.pull(0, commit_ts=1, offset=1, feed=f"feed-{number}")).code
        shown = world.node(NODE).service.status()["puller"]
        assert (len(shown["feeds"]), len(shown["errors"])) == (MAX_FEEDS, MAX_ERRORS)
        assert "feed-0" not in shown["errors"]

    run(main, 4)


INT64 = st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-2, 5)
UINT32 = st.integers(0, (1 << 32) - 1)
PULLS = st.builds(
    lambda **fields: PullRequest(**fields).SerializeToString(),
    after_ts=INT64,
    want_ts=INT64,
    max_bytes=UINT32,
    wait_ms=st.integers(0, 50),
    commit_ts=INT64,
    offset=st.just(0) | st.integers(0, (1 << 64) - 1),
    feed=st.text(max_size=4),
    unwanted_table_ids=st.lists(INT64, max_size=2),
)
PAYLOADS = st.binary(max_size=40) | st.builds(commit, INT64, INT64) | st.builds(prewrite, INT64)
WRITES = st.builds(
    lambda cluster_id, payloads: WriteBatch(
        cluster_id=cluster_id, payloads=payloads
    ).SerializeToString(),
    st.just(7) | st.integers(0, (1 << 64) - 1),
    st.lists(PAYLOADS, max_size=4),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
CONTROLS = st.builds(
    lambda verb, ts: msgspec.json.encode({"verb": verb, "ts": ts}),
    st.sampled_from(["status", "inspect"]) | JSON,
    INT64 | JSON,
)
REQUESTS = st.one_of(
    st.tuples(st.sampled_from(["pull", "write", "control"]), st.binary(max_size=60)),
    st.tuples(st.just("pull"), PULLS),
    st.tuples(st.just("write"), WRITES),
    st.tuples(st.just("control"), CONTROLS),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(REQUESTS, min_size=1, max_size=12))
def test_any_bytes_get_a_typed_answer(requests: list[tuple[str, bytes]]) -> None:
    async def main(world: World) -> None:
        _, client = await start(world)
        client.timeout_s = 70  # a long poll may have asked for a minute
        for verb, body in requests:
            answer = await raw(client, verb, body)
            if verb == "pull":
                assert typed(PullFrame.FromString(answer).code or "BadInput")
            elif verb == "write":
                results = WriteBatchResult.FromString(answer).results
                assert all(typed(r.code or "BadInput") for r in results)
            else:
                told = msgspec.json.decode(answer)
                assert typed(told.get("code", "BadInput"))
        base = ts_now(world)
        await client.done(prewrite(base), commit(base, base + 1))
        assert not crashes(world)

    run(main, 5)


class Context:
    """Of a call: what its caller says of it, and what status it got."""

    def __init__(self, *metadata: tuple[str, str]) -> None:
        self.code: grpc.StatusCode | None = None
        self.told: dict[str, str] = {}
        self._metadata = metadata

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return self._metadata

    def set_code(self, code: grpc.StatusCode) -> None:
        self.code = code

    def set_details(self, details: str) -> None: ...

    def set_trailing_metadata(self, metadata: tuple[tuple[str, str], ...]) -> None:
        self.told = dict(metadata)


def test_bodies_that_wait_are_bounded_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        edge = GrpcEdge(RealClock(), *(Mock() for _ in range(6)), cluster_id=7, addresses=[])
        written, contexts = asyncio.Event(), [Context() for _ in range(4)]

        async def write(cluster_id: int, binlog: bytes) -> None:
            await written.wait()

        monkeypatch.setattr(edge, "_gatherer", Mock(write=write, left_bytes=0))
        request = WriteBinlogReq(clusterID=7, payload=prewrite(1)).SerializeToString()
        monkeypatch.setattr(grpc_edge, "WAITING_BYTES", 2 * len(request))
        calls = [asyncio.create_task(edge._write_binlog(request, c)) for c in contexts]  # type: ignore[arg-type]
        async with asyncio.timeout(10):
            await asyncio.gather(*calls[2:])
        assert edge.status()["bytes"] == 2 * len(request)
        written.set()
        await asyncio.gather(*calls)
        unavailable = grpc.StatusCode.UNAVAILABLE
        assert [c.code for c in contexts] == [None, None, unavailable, unavailable]
        # Whatever its size, one is taken when nothing else waits.
        monkeypatch.setattr(grpc_edge, "WAITING_BYTES", 1)
        await edge._write_binlog(request, contexts[0])  # type: ignore[arg-type]
        assert (contexts[0].code, edge.status()["bytes"]) == (None, 0)

    asyncio.run(main())


class FullWriter:
    """Its mailbox takes nothing before there is `room`."""

    def __init__(self) -> None:
        self.room = asyncio.Event()
        self.tasks: list[asyncio.Task[None]] = []

    def spawn(self, work: Any, _: str) -> None:
        self.tasks.append(asyncio.create_task(work))

    def reply(self, settle: Any) -> Reply[Any]:
        return Reply(settle, {})

    async def tell(self, message: Append) -> None:
        await self.room.wait()
        message.reply.set([None] * len(message.payloads))

    async def ask(self, _: object) -> list[None]:
        await self.room.wait()
        return [None]


def test_bodies_of_callers_that_went_away_count_until_they_are_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        edge = GrpcEdge(RealClock(), *(Mock() for _ in range(6)), cluster_id=7, addresses=[])
        writer, contexts = FullWriter(), [Context() for _ in range(5)]
        gatherer = Gatherer(RealClock(), writer, 7, writer.spawn)  # type: ignore[arg-type]
        monkeypatch.setattr(edge, "_gatherer", gatherer)
        binlog = prewrite(1, b"v" * 100)
        request = WriteBinlogReq(clusterID=7, payload=binlog).SerializeToString()
        monkeypatch.setattr(grpc_edge, "WAITING_BYTES", 4 * len(request))
        alone, *gathered = (
            asyncio.create_task(edge._write_binlog(request, c))  # type: ignore[arg-type]
            for c in contexts[:4]
        )
        await asyncio.sleep(0.01)
        for call in gathered:
            call.cancel()
        await asyncio.wait(gathered)
        async with asyncio.timeout(10):
            await edge._write_binlog(request, contexts[4])  # type: ignore[arg-type]
        assert contexts[4].code == grpc.StatusCode.UNAVAILABLE
        assert edge.status()["bytes"] == len(request) + 3 * len(binlog)
        writer.room.set()
        await asyncio.gather(alone, *writer.tasks)
        assert edge.status()["bytes"] == 0

    asyncio.run(main())


def test_a_small_payload_does_not_hold_its_large_request() -> None:
    request = WriteBinlogReq(clusterID=7, payload=b"small").SerializeToString()
    cluster_id, binlog = parse_write(request + b"\x1a\xa0\x8d\x06" + bytes(100_000))
    assert (cluster_id, binlog) == (7, b"small")
    assert isinstance(binlog, bytes)


def test_what_is_meant_for_another_pump_is_not_acked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that knows our address as another's. A TiDB's calls name nobody."""

    async def main() -> None:
        edge = GrpcEdge(RealClock(), *(Mock() for _ in range(6)), cluster_id=7, addresses=[])
        edge._identity.node = "pump:ü"
        written: list[bytes] = []

        async def write(cluster_id: int, binlog: bytes) -> None:
            written.append(binlog)

        monkeypatch.setattr(edge, "_gatherer", Mock(write=write, left_bytes=0))
        request = WriteBinlogReq(clusterID=7, payload=b"binlog").SerializeToString()
        another = Context(("user-agent", "x"), ("tidelog-node", "pump-2"))
        await edge._write_binlog(request, another)  # type: ignore[arg-type]
        assert (another.code, written) == (grpc.StatusCode.UNAVAILABLE, [])
        assert another.told == {"tidelog-error": "AnotherNode", "tidelog-definite": "true"}
        for context in (Context(), Context(("tidelog-node", "pump=3A=C3=BC"))):
            await edge._write_binlog(request, context)  # type: ignore[arg-type]
            assert context.code is None
        assert written == [b"binlog", b"binlog"]

    asyncio.run(main())


def observed(seconds: dict[str, Histogram]) -> tuple[int, int]:
    """How many: succ, fail."""
    succ, fail = (
        int(sum(bucket.get() for bucket in seconds[k]._buckets)) for k in ("succ", "fail")
    )
    return succ, fail


def test_every_grpc_pull_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that its reader ends, one that meets an error, two that ask wrongly."""

    async def main() -> None:
        edge = GrpcEdge(RealClock(), *(Mock() for _ in range(6)), cluster_id=7, addresses=[])

        async def responses(after_ts: int) -> AsyncGenerator[bytes, None]:
            yield b"one"
            if after_ts:
                raise Corrupt("damaged")

        monkeypatch.setattr(edge, "_pulls", Mock(responses=responses))
        succ, fail = observed(PULL_SECONDS)
        asked = [PullBinlogReq(clusterID=7, startFrom=Pos(offset=n)) for n in (0, 5)]
        bodies = [*(one.SerializeToString() for one in asked), PullBinlogReq().SerializeToString()]
        for body in (*bodies, b"\xff"):
            async for _ in edge._pull_binlogs(body, Context()):  # type: ignore[arg-type]
                pass
        assert observed(PULL_SECONDS) == (succ + 1, fail + 3)
        async with aclosing(edge._pull_binlogs(bodies[1], Context())) as stream:  # type: ignore[arg-type, type-var]
            await anext(stream)
        assert observed(PULL_SECONDS) == (succ + 2, fail + 3)

    asyncio.run(main())


def test_every_message_of_writes_is_timed() -> None:
    async def main(world: World) -> None:
        _, client = await start(world)
        base = ts_now(world)
        succ, fail = observed(NATS_SECONDS)
        await client.done(prewrite(base), prewrite(base + 1))
        await client.write(prewrite(base + 2), b"no binlog")
        await raw(client, "write", b"no batch")
        assert observed(NATS_SECONDS) == (succ + 1, fail + 2)

    run(main, 7)


def test_a_failed_write_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(world: World) -> None:
        _, client = await start(world)
        before = ERRORS.labels("IoFailed")._value.get()

        async def fails(*_: object) -> None:
            raise IoFailed("the disk is gone")

        monkeypatch.setattr(Segments, "append", fails)
        with contextlib.suppress(Unavailable):
            await client.write(prewrite(ts_now(world)))
        assert ERRORS.labels("IoFailed")._value.get() == before + 1

    run(main, 8)


def noted(what: str) -> float:
    return float(NOTED.labels(what)._value.get())


def test_a_repeated_prewrite_and_a_refused_timestamp_are_counted() -> None:
    async def main(world: World) -> None:
        _, client = await start(world)
        base = ts_now(world)
        repeated, refused = noted("repeated_prewrite"), noted("refused_ts")
        await client.done(prewrite(base))
        await client.done(prewrite(base))
        await client.pull(0, wait_ms=0)
        assert (noted("repeated_prewrite"), noted("refused_ts")) == (repeated + 1, refused)
        await client.pull(0, wait_ms=0, want_ts=base + compose(3_600_000))
        assert noted("refused_ts") == refused + 1

    run(main, 9)


@given(
    st.binary(max_size=80)
    | st.builds(
        lambda c, p: WriteBinlogReq(clusterID=c, payload=p).SerializeToString(),
        st.integers(0, (1 << 64) - 1),
        st.binary(max_size=50),
    ),
    st.sampled_from([0, 70_000]),
)
def test_any_grpc_write_parses_or_is_refused(request: bytes, padding: int) -> None:
    with contextlib.suppress(UnparsablePayload):
        parse_write(request + bytes(padding))


def test_a_start_that_is_cancelled_leaves_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its port would be taken for whoever comes next in this process."""
    server = Mock(start=asyncio.Event().wait, stop=AsyncMock())
    monkeypatch.setattr(grpc.aio, "server", Mock(return_value=server))

    async def main() -> None:
        edge = GrpcEdge(RealClock(), *(Mock() for _ in range(6)), cluster_id=7, addresses=[])
        starting = asyncio.create_task(edge.on_start())
        await asyncio.sleep(0)
        server.stop.assert_not_awaited()
        starting.cancel()
        await asyncio.wait([starting])
        server.stop.assert_awaited_once_with(None)

    asyncio.run(main())
