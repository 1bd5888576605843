"""What the rigs of kills are started with: `--kills 100 --seed 1`."""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tests.servers import nats_server
from tests.wrong import Wrong


class KillRig(Protocol):
    @property
    def kills(self) -> Counter[str]: ...

    def run(self, on_kill: Callable[[], None]) -> Coroutine[Any, Any, None]: ...

    def summary(self) -> str: ...


Made = Callable[..., KillRig]
"""(nats: NatsServer, directory: Path, *, kills: int, seed: int, and the numbers of its own)"""


def command(
    argv: list[str],
    about: str | None,
    made: Made,
    more: Mapping[str, int] = MappingProxyType({}),
) -> int:
    """What the rig found wrong is printed and is exit code 1. `more`: numbers that this rig takes
    besides, with what they are if not given."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    for name, number in more.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=number)
    options = parser.parse_args(argv)
    columns = (TextColumn("kill -9"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with (
        tempfile.TemporaryDirectory(prefix="kill-rig-") as directory,
        nats_server(Path(directory)) as nats,
        Progress(*columns, console=Console(stderr=True)) as progress,
    ):
        numbers = {name: getattr(options, name) for name in more}
        rig = made(nats, Path(directory), kills=options.kills, seed=options.seed, **numbers)
        bar = progress.add_task("kills", total=options.kills)
        try:
            asyncio.run(rig.run(lambda: progress.advance(bar)))
        except Wrong as error:
            print(f"kill {rig.kills.total()} of seed {options.seed}: {error}")
            return 1
    print(rig.summary())
    return 0
