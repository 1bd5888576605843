"""A real file system gets full: Prewrites are refused for sure, all else goes on, and it mends.

Where other tests don't write meanwhile: in memory (/dev/shm) if their files are on a disk, and on a
disk if theirs are in memory, as `make integration` has them.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import grpc
import msgspec
import pytest

from tests.adapters.pump.rig import GrpcClient, registry_and_client, running, until
from tests.adapters.pump.test_pump_http import CONFIG
from tests.servers import nats_server
from tests.unit.pump.rig import CLUSTER_ID, NODE, commit, prewrite, rollback
from tidelog.real.clock import RealClock
from tidelog.real.disk import RealDisk
from tidelog.timestamps import compose
from tidelog_pump.config import StorageConfig

ROOM = 24 << 20
SHM = Path("/dev/shm")
QUIET = Path("/var/tmp") if SHM in Path(tempfile.gettempdir(), "_").parents else SHM


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    if not (QUIET.is_dir() and os.access(QUIET, os.W_OK)):
        yield tmp_path
        return
    made = Path(tempfile.mkdtemp(dir=QUIET))
    try:
        yield made
    finally:
        shutil.rmtree(made)


def fill(path: Path, size: int) -> None:
    with path.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, size)


def test_prewrites_are_refused_until_there_is_space_again(tmp_path: Path, place: Path) -> None:
    async def main(url: str) -> None:
        base = compose(RealClock().wall_ms())
        storage = StorageConfig(stop_write_at_available_space=RealDisk(place).free_bytes() - ROOM)
        config = msgspec.structs.replace(CONFIG, grpc_addr="127.0.0.1:0", storage=storage)
        filler = place / "filler"
        async with (
            registry_and_client(url, NODE) as (_, client),
            running(config, place / "data", url) as tree,
        ):
            await client.until_online()
            direct = GrpcClient(str(tree.status()["grpc"]["bound"]), CLUSTER_ID)
            await client.done(prewrite(base))
            assert await direct.write(prewrite(base + 1)) == ""
            await asyncio.to_thread(fill, filler, 2 * ROOM)
            await until(lambda: tree.status()["writer"]["disk_full"] is True)
            for payload in (prewrite(base + 2), b""):
                refused = (await client.write(payload))[0]
                assert (refused.code, refused.definite) == ("DiskFull", True)
                with pytest.raises(grpc.aio.AioRpcError) as raised:
                    await direct.write(payload)
                assert raised.value.code() is grpc.StatusCode.FAILED_PRECONDITION
            await client.done(commit(base, base + 5))
            assert await direct.write(rollback(base + 1)) == ""
            (txn,) = await client.pull_up_to(base + 5, base - 1)
            assert txn.commit_ts == base + 5
            filler.unlink()
            await until(lambda: tree.status()["writer"]["disk_full"] is False)
            await client.done(prewrite(base + 6))
            assert await direct.write(prewrite(base + 7)) == ""
            await direct.close()

    with nats_server(tmp_path) as server:
        asyncio.run(main(server.url))


def test_a_prewrite_that_does_not_fit_is_refused_before_it_is_tried(
    tmp_path: Path, place: Path
) -> None:
    """By what we wrote since the disk was last asked, too: half a write would end the process."""

    async def main(url: str) -> None:
        base = compose(RealClock().wall_ms())
        storage = StorageConfig(stop_write_at_available_space=RealDisk(place).free_bytes() - ROOM)
        config = msgspec.structs.replace(CONFIG, grpc_addr="127.0.0.1:0", storage=storage)
        async with (
            registry_and_client(url, NODE) as (_, client),
            running(config, place / "data", url) as tree,
        ):
            await client.until_online()
            direct = GrpcClient(str(tree.status()["grpc"]["bound"]), CLUSTER_ID)
            outcomes: list[object] = []
            for number in range(8):
                try:
                    outcomes.append(await direct.write(prewrite(base + number, bytes(ROOM // 4))))
                except grpc.aio.AioRpcError as error:
                    outcomes.append(error.code())
            full = grpc.StatusCode.FAILED_PRECONDITION
            assert outcomes == sorted(outcomes, key=lambda outcome: outcome is full)
            assert 2 <= outcomes.count("") <= 4
            assert outcomes.count("") + outcomes.count(full) == 8
            await client.done(prewrite(base + 100))
            await direct.close()

    with nats_server(tmp_path) as server:
        asyncio.run(main(server.url))


@pytest.mark.parametrize("ways", [["fill mend"], ["fill kill", "mend"]])
def test_a_disk_without_a_single_byte_mends_itself(tmp_path: Path, ways: list[str]) -> None:
    """Of 32 MiB, in memory, seen by these processes only: it goes with them."""
    room = tmp_path / "room"
    room.mkdir()
    with nats_server(tmp_path) as server:
        pump = f"{sys.executable} -m tests.integration.pump.small_disk {room} {server.url}"
        lives = [f"{pump} {way}" for way in ways]
        script = " && ".join([f"mount -t tmpfs -o size=32m none {room}", *lives])
        argv = ["unshare", "-rm", "sh", "-c", script]
        found = subprocess.run(argv, capture_output=True, text=True, timeout=100, check=False)
    said = found.stdout + found.stderr
    assert (found.returncode, found.stdout.splitlines()[-1:]) == (0, ["mended"]), said
