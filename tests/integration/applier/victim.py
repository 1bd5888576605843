"""A service that is killed again and again, at moments of its own life."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import signal
import subprocess
import time
import urllib.request
from collections import Counter
from collections.abc import Mapping
from typing import Any

from tests.integration.pump_client.cluster import Service
from tests.wrong import STUCK_S, Wrong

POINT_S = 20.0


class Victim:
    """`points`: by the moment's name a failpoint, and at which of its first passages it kills, at
    the latest."""

    def __init__(
        self, service: Service, points: Mapping[str, tuple[str, int]], rng: random.Random
    ) -> None:
        self.service = service
        self.kills: Counter[str] = Counter()
        self.start_s = 1.0
        """How long it took to be ready, the last time."""
        self._points = points
        self._rng = rng

    @property
    def dead(self) -> bool:
        return self.service.process is None or self.service.process.poll() is not None

    def start(self, moment: str) -> None:
        self.service.env.pop("TIDELOG_FAILPOINTS", None)
        if moment in self._points:
            name, most = self._points[moment]
            self.service.env["TIDELOG_FAILPOINTS"] = f"{name}=kill@{self._rng.randint(1, most)}"
        self.service.start()

    async def ready(self) -> bool:
        """False if a failpoint was quicker."""
        began = time.monotonic()
        async with asyncio.timeout(STUCK_S):
            while not self.dead:
                with contextlib.suppress(AssertionError):  # It ended just now: `kill` says how.
                    if await asyncio.to_thread(self.service.ready):
                        self.start_s = time.monotonic() - began
                        return True
                await asyncio.sleep(0.02)
        return False

    async def ended(self) -> bool:
        """False if the failpoint is not reached."""
        process = self.service.process
        assert process is not None
        try:
            await asyncio.to_thread(process.wait, POINT_S)
        except subprocess.TimeoutExpired:
            return False
        return True

    async def kill(self, moment: str) -> None:
        """Unless a failpoint did. Raises Wrong if it ended by itself."""
        process = self.service.process
        assert process is not None
        if not self.dead:
            process.kill()
        status = await asyncio.to_thread(process.wait)
        if status != -signal.SIGKILL:
            raise Wrong(f"the service ended by itself with {status}:\n{self.service.log()}")
        self.service.process = None
        self.kills[moment] += 1

    def status(self) -> Any:
        """Of its actors."""
        address = (self.service.directory / "http").read_text().strip()
        with urllib.request.urlopen(f"http://{address}/status", timeout=5) as answer:
            return json.load(answer)["actors"]

    def stuck(self) -> Wrong:
        told = self.service.log() if self.dead else self.status()
        return Wrong(f"nothing moves for {STUCK_S} s: {told}")
