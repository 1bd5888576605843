"""Timestamps of the embedded oracle, as the callers of one process see them.

The client has one request under way and asks for all who wait at once, so the figures stand beside
plain request/reply with as many callers.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from bench.figure import Figure, Limit
from bench.limits import MESSAGE
from bench.load import closed_loop, timed
from bench.stage import CLUSTER, Stage
from tidelog.errors import Unavailable
from tidelog.oracle import RegistryOracle

SECTION = "tso"
CALLERS = 64
AIM = 200_000.0
SECONDS = 4.0
PATIENCE = 20
"""The first timestamp may be a while after the registry is ready; each try waits 3 s."""


async def measure(
    directory: Path, limits: Mapping[str, Limit], share: float, profile: str = ""
) -> list[Figure]:
    figures: list[Figure] = []
    async with Stage(directory, profile=profile) as stage:
        await stage.start("registry")
        oracle = RegistryOracle(stage.bus, CLUSTER)
        await _first(oracle)
        for name, count, aim in (
            ("fresh", 1, None),
            ("take(16)", 16, AIM),
            ("take(256)", 256, AIM),
        ):
            cpu = stage.cpu()
            load = await closed_loop(CALLERS, SECONDS * share, timed(partial(oracle.take, count)))
            figures.append(
                Figure(
                    SECTION,
                    f"{name}, {CALLERS} callers",
                    load.rate * count,
                    "timestamps/s",
                    limits.get(f"nats-{CALLERS}-{MESSAGE}"),
                    aim,
                    spread=load.spread,
                    usage=cpu.usage(),
                    note=f"{load.rate:,.0f} calls/s",
                )
            )
        stage.check()
    return figures


async def _first(oracle: RegistryOracle) -> None:
    for _ in range(PATIENCE):
        try:
            await oracle.fresh()
        except Unavailable:
            continue
        return
    raise RuntimeError("the oracle gives no timestamps")
