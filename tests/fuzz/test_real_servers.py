"""A share of the bad input at real processes: raw bytes at gRPC, and every control subject of
`tidelog up`. Then everything still answers, right, in the same processes."""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from pathlib import Path

import grpc
import pytest

from tests.acceptance.status_api import status_api
from tests.acceptance.test_bad_input import arrives, options, restarts
from tests.acceptance.writing import CLUSTER_ID, Refusal, pump_of
from tests.fixtures.capture import ddl_history_json
from tests.fuzz.mutation import mutated
from tests.fuzz.pump_inputs import write_requests
from tests.fuzz.run import GROWTH_BYTES
from tests.fuzz.strangers import Door, Stranger, Talk, doors, is_binlog
from tests.last_line import last_line
from tests.topology import Running, up
from tidelog.real.bus import NatsBus
from tidelog_proto.pump_pb2 import Pos, PullBinlogReq, WriteBinlogReq

REQUESTS = 1500
QUESTIONS = 1500
PULLS = 60
DEFINITE = {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.FAILED_PRECONDITION}


def rss_bytes(running: Running) -> dict[str, int]:
    pids = {name: running.pid(name) for name in ("registry", "pump-1", "drainer", "applier")}
    return {
        name: int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        for name, pid in pids.items()
    }


def served(door: Door) -> bool:
    """Of a topology that follows its upstream's oracle, without a writer's process and without the
    backfill service."""
    return not any(name in door.subject for name in ("backfill", "txnstatus", "registry.tso"))


def stored(request: bytes) -> bool:
    try:
        return is_binlog(WriteBinlogReq.FromString(request).payload)
    except Exception:  # noqa: BLE001 (then it is none)
        return False


def _foreseen(code: grpc.StatusCode, details: str) -> grpc.StatusCode:
    assert "unforeseen" not in details
    return code


def write(running: Running, rng: random.Random) -> Counter[grpc.StatusCode]:
    """Raw requests to WriteBinlog, and what they are answered."""
    said: Counter[grpc.StatusCode] = Counter()
    seeds = write_requests()
    with pump_of(running) as pump:
        for _ in range(REQUESTS):
            request = mutated(rng, rng.choice(seeds), "proto", seeds)
            if stored(request):
                continue
            try:
                pump.raw(request)
                said[grpc.StatusCode.OK] += 1
            except Refusal as refusal:
                said[_foreseen(refusal.code, refusal.details)] += 1
    return said


def pull(running: Running, rng: random.Random) -> Counter[grpc.StatusCode]:
    """Raw requests to PullBinlogs. One that is right goes on until its deadline."""
    said: Counter[grpc.StatusCode] = Counter()
    seeds = [PullBinlogReq(clusterID=CLUSTER_ID, startFrom=Pos(offset=5)).SerializeToString()]
    with grpc.insecure_channel(running.ready["pumps"][0]["grpc"]) as channel:
        call = channel.unary_stream("/binlog.Pump/PullBinlogs", bytes, bytes)
        for _ in range(PULLS):
            try:
                for _response in call(mutated(rng, seeds[0], "proto", seeds), timeout=0.5):
                    break
                said[grpc.StatusCode.OK] += 1
            except grpc.RpcError as error:
                said[_foreseen(error.code(), error.details() or "")] += 1
    return said


async def speak(nats: str, rng: random.Random, talk: Talk) -> None:
    bus = await NatsBus.connect(nats, name="stranger", timeout_s=10)
    try:
        spoken_to = [door for door in doors() if served(door)]
        await Stranger(bus, rng, QUESTIONS, talk, spoken_to).speak()
    finally:
        await bus.close()


@pytest.fixture(name="seed")
def _seed() -> int:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    return seed


def test_strangers_at_real_servers(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    with (
        status_api(ddl_history_json("set-a")) as history,
        up(tmp_path / "top", f"sqlite:///{tmp_path / 'down.db'}", *options(history)) as running,
        pump_of(running) as pump,
    ):
        arrives(running, pump, 1)
        processes, grown_from = restarts(running), rss_bytes(running)
        said, talk = write(running, rng), Talk()
        assert set(said) <= DEFINITE | {grpc.StatusCode.OK}, said
        assert said[grpc.StatusCode.INVALID_ARGUMENT] > REQUESTS // 10
        pulled = pull(running, rng)
        assert set(pulled) <= DEFINITE | {grpc.StatusCode.OK, grpc.StatusCode.DEADLINE_EXCEEDED}
        asyncio.run(speak(running.nats, rng, talk))
        assert not talk.wrong
        assert talk.inputs == QUESTIONS
        arrives(running, pump, 2)
        growth = {name: rss - grown_from[name] for name, rss in rss_bytes(running).items()}
        assert restarts(running) == processes
        assert max(growth.values()) < GROWTH_BYTES, growth
        cases = said.total() + pulled.total() + talk.inputs
    more = f"seed {seed}; {dict(said)}, {dict(pulled)}, {talk.said}"
    print(last_line("bad input, real servers", cases, more))
