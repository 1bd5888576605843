"""What the machine's building blocks do by themselves: disk, NATS, gRPC, JetStream.

The database's limits are in `limits_sql.py`. Everything is measured with the plain libraries, not
through our ports: a port that costs something shows as a ratio below 1.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import product
from pathlib import Path

import grpc
import nats
from nats.aio.client import Client
from nats.js.api import StorageType, StreamConfig

from bench import echo
from bench.figure import Limit, spread
from bench.load import closed_loop, timed

MESSAGE = 256
LARGER = (4 << 10, 64 << 10)
FLIGHTS = (1, 64, 256)
BATCH = 500
SEGMENT = 64 << 20


def disk(directory: Path, seconds: float) -> dict[str, Limit]:
    """fdatasync of 4 KiB appended, and bandwidth of 64 KiB appends synced one by one."""
    small = _appends(directory / "small", 4 << 10, seconds)
    large = _appends(directory / "large", 64 << 10, seconds)
    rate = 1 / (sum(large) / len(large))
    return {
        "fdatasync": Limit("fdatasync, 4 KiB", len(small) / sum(small), "syncs/s", spread(small)),
        "append": Limit("64 KiB append + fdatasync", rate * 65_536 / 1e6, "MB/s", spread(large)),
    }


def _appends(path: Path, size: int, seconds: float) -> list[float]:
    """Seconds of each append with its sync."""
    block, taken = os.urandom(size), []
    handle = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    try:
        end = time.perf_counter() + seconds
        while (began := time.perf_counter()) < end:
            os.write(handle, block)
            os.fdatasync(handle)
            taken.append(time.perf_counter() - began)
            if len(taken) * size % SEGMENT == 0:
                os.ftruncate(handle, 0)
    finally:
        os.close(handle)
        path.unlink()
    return taken


@contextmanager
def echo_server(url: str) -> Iterator[int]:
    """The process of `bench.echo`; gives its gRPC port."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.echo", url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline())
    finally:
        process.stdin.close()
        process.wait(15)
        process.stdout.close()


async def rpc(url: str, seconds: float) -> dict[str, Limit]:
    """nats-py request/reply and grpc.aio unary calls against another process: `nats-FLIGHT-BYTES`
    and `grpc-FLIGHT-BYTES`."""
    found: dict[str, Limit] = {}
    with echo_server(url) as port:
        client = await nats.connect(url)
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            unary = channel.unary_unary(echo.METHOD, None, None)

            async def by_nats(body: bytes) -> None:
                await client.request(echo.SUBJECT, body, timeout=5)

            async def by_grpc(body: bytes) -> None:
                await unary(body)

            for size, flight in product((MESSAGE, *LARGER), FLIGHTS):
                body = os.urandom(size)
                of = f"{flight} in flight" + (f", {size >> 10} KiB" if size != MESSAGE else "")
                for key, name, call in (
                    ("nats", "nats-py request/reply", by_nats),
                    ("grpc", "grpc.aio unary echo", by_grpc),
                ):
                    load = await closed_loop(flight, seconds, timed(partial(call, body)))
                    found[f"{key}-{flight}-{size}"] = Limit(
                        f"{name}, {of}", load.rate, "calls/s", load.spread
                    )
        await client.close()
    return found


async def jetstream(url: str, seconds: float) -> dict[str, Limit]:
    """Atomic batches of 500 and of 2 messages of 256 B, one batch in flight, every sync done."""
    client = await nats.connect(url)
    stream = client.jetstream()
    config = StreamConfig(
        name="BENCH", subjects=["bench.js.>"], storage=StorageType.FILE, allow_atomic=True
    )
    await stream.add_stream(config)
    found: dict[str, Limit] = {}
    try:
        for size in (BATCH, 2):
            load = await closed_loop(1, seconds, timed(partial(_batch, client, size)))
            found[f"batch-{size}"] = Limit(
                f"JetStream atomic batches of {size}", load.rate * size, "msg/s", load.spread
            )
    finally:
        await stream.delete_stream("BENCH")
        await client.close()
    return found


async def _batch(client: Client, size: int) -> None:
    """One atomic batch by hand (nats-py has none): the last message commits and is answered."""
    batch, body = uuid.uuid4().hex, bytes(MESSAGE)
    for number in range(1, size):
        headers = {"Nats-Batch-Id": batch, "Nats-Batch-Sequence": str(number)}
        if number == 1:
            # The server answers the first as well, so that a refusal is known early.
            await client.request("bench.js.row", body, headers=headers, timeout=10)
        else:
            await client.publish("bench.js.row", body, headers=headers)
    headers = {"Nats-Batch-Id": batch, "Nats-Batch-Sequence": str(size), "Nats-Batch-Commit": "1"}
    answer = await client.request("bench.js.row", body, headers=headers, timeout=10)
    if b'"error"' in answer.data:
        raise RuntimeError(answer.data.decode())


def idle() -> None:
    """Let what was dirtied reach the disk before somebody else is measured."""
    os.sync()
    time.sleep(0.2)  # so long the disk works on behind its own cache; nothing tells when it is done


async def settle() -> None:
    await asyncio.get_running_loop().run_in_executor(None, idle)
