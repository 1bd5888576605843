"""The task that saves checkpoints purges while the relay is opened again behind a full disk."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.unit.relay.relay_rig import FEED, STRUCTURES, read, rows, whole
from tidelog.real.disk import RealDisk
from tidelog.relay import RelayLog


class Slow(RealDisk):
    """Removing the file that was just begun takes a moment, as on a disk that is busy."""

    begun = ""
    removing: asyncio.Event

    async def remove(self, path: str) -> None:
        if path == self.begun:
            self.removing.set()
            await asyncio.sleep(0.05)
        await super().remove(path)


def test_what_is_not_applied_stays_though_it_is_purged_while_it_is_opened(tmp_path: Path) -> None:
    async def main() -> None:
        disk = Slow(tmp_path)
        disk.removing = asyncio.Event()
        log = RelayLog(disk, "relay", feed=FEED, max_file_bytes=1000)
        await log.open(0)
        for ts in range(1, 4):  # a file each, and all three are full
            await log.append([whole(ts, ts - 1, rows(ts, 600))], STRUCTURES)
        # The rotation meets a full disk: the file is there, its header is not.
        disk.begun = "relay/relay-000003"
        disk.path(disk.begun).touch()
        opening = asyncio.ensure_future(log.open(3))  # Intake._next, after DiskFull
        await disk.removing.wait()
        await log.purge(2)  # Applier._save_now_and_then: the checkpoint is 2
        await opening
        log.close()
        again = RelayLog(disk, "relay", feed=FEED, max_file_bytes=1000)
        await again.open(2)
        assert [ts for ts, _ in await read(again, 2)] == [3]

    asyncio.run(main())
