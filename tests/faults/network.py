"""Faults of the network between real processes: `python -m tests.faults.network --repeats 20`.

Six links go over a TCP proxy: the writers' gRPC to the Pumps, each service's NATS connection, the
Applier's connections to MariaDB. Under load each of toxiproxy's eight toxics comes over each link
for some seconds and goes: then all that was committed arrives, once, in order. A cell whose toxic
met no bytes, or ended no connection that had carried some, is wrong. Then swizzle-clog: the links
of a random subset are clogged one by one, and released in another order.

What a Drainer asks a Pump goes over NATS: that link's toxic is on the way of the Pump's answers, up
its connection and down the Drainer's, while requests pass.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.adapters.mysql.mysql_rig import UNSYNCED
from tests.faults.proxy import HOST, Proxy
from tests.faults.stack import APPLIER, DRAINER, PUMPS, Plan, Stack, Wrongs
from tests.faults.toxics import Kind, Met, Side, Toxic, drawn
from tests.last_line import last_line
from tests.servers import MariaDb, NatsServer, free_port, mariadb_server, nats_server
from tests.wrong import Wrong
from tidelog.logs import configure

LASTS_S = (1.0, 3.0)
MEETS_S = 20.0
"""So long a toxic stays at most, when it has met nothing yet: a link may be quiet for a while."""
CLOG = Toxic(Kind.TIMEOUT)
LINKS = (
    "client-pump",
    "pump-nats",
    "drainer-nats",
    "drainer-pump",
    "applier-nats",
    "applier-mariadb",
)
Cell = tuple[Kind, str]
ALL: tuple[Cell, ...] = tuple((kind, link) for kind in Kind for link in LINKS)


def share(seed: int) -> list[Cell]:
    """Each toxic once, and each link at least once."""
    rng = random.Random(seed)
    links = [*rng.sample(LINKS, len(LINKS)), *rng.choices(LINKS, k=len(Kind) - len(LINKS))]
    return list(zip(rng.sample(list(Kind), len(Kind)), links, strict=True))


@dataclass
class Wire:
    """What a link of the table is made of."""

    ends: list[tuple[Proxy, Side]]

    def poison(self, toxic: Toxic) -> None:
        for proxy, side in self.ends:
            proxy.poison(toxic, side)

    async def heal(self) -> Met:
        met = Met()
        for proxy, _ in self.ends:
            met.add(await proxy.heal())
        return met

    def met(self) -> Met:
        met = Met()
        for proxy, _ in self.ends:
            met.add(proxy.met)
        return met

    @property
    def carried(self) -> int:
        return sum(proxy.carried for proxy, _ in self.ends)


class Rig:
    """`took`: seconds from a toxic's end until all had arrived, by link."""

    def __init__(self, nats: NatsServer, database: MariaDb, directory: Path, *, seed: int) -> None:
        self.cells = self.swizzles = 0
        self.met = Met()
        self.took: dict[str, list[float]] = {}
        self.seconds = 0.0
        self.seed = seed
        self.stack: Stack
        self._rng = random.Random(seed)
        self._nats, self._database, self._directory = nats, database, directory
        self._wires: dict[str, Wire] = {}

    async def run(
        self,
        cells: Sequence[Cell],
        swizzles: int = 0,
        on_cell: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Raises Wrong."""
        began = time.monotonic()
        async with self._proxied() as plan:
            self.stack = Stack(self._nats, self._database, self._directory, plan, seed=self.seed)
            async with self.stack.loaded():
                for kind, link in cells:
                    took = await self._cell(kind, link)
                    on_cell(f"{self.stack.doing}: all there after {took:.1f} s")
                    self.cells += 1
                for _ in range(swizzles):
                    took = await self._swizzle()
                    on_cell(f"{self.stack.doing}: all there after {took:.1f} s")
                    self.swizzles += 1
            self.seconds = time.monotonic() - began

    @contextlib.asynccontextmanager
    async def _proxied(self) -> AsyncIterator[Plan]:
        grpc = {pump: free_port() for pump in PUMPS}
        to_nats = {name: Proxy(self._nats.port) for name in (*PUMPS, DRAINER, APPLIER)}
        to_pumps = {pump: Proxy(port) for pump, port in grpc.items()}
        to_database = Proxy(self._database.port)
        proxies = [*to_nats.values(), *to_pumps.values(), to_database]
        for proxy in proxies:
            await proxy.listen()
        self._wires = {
            "client-pump": Wire([(proxy, Side.BOTH) for proxy in to_pumps.values()]),
            "pump-nats": Wire([(to_nats[PUMPS[1]], Side.BOTH)]),
            "drainer-nats": Wire([(to_nats[DRAINER], Side.BOTH)]),
            "drainer-pump": Wire([(to_nats[PUMPS[0]], Side.UP), (to_nats[DRAINER], Side.DOWN)]),
            "applier-nats": Wire([(to_nats[APPLIER], Side.BOTH)]),
            "applier-mariadb": Wire([(to_database, Side.BOTH)]),
        }
        try:
            yield Plan(
                nats_urls={n: f"nats://{HOST}:{proxy.port}" for n, proxy in to_nats.items()},
                flags={
                    pump: [
                        *("--grpc-addr", f"{HOST}:{grpc[pump]}"),
                        *("--advertise-addr", f"{HOST}:{proxy.port}"),
                    ]
                    for pump, proxy in to_pumps.items()
                },
                downstream=f"mysql://root@{HOST}:{to_database.port}/",
                grpc=True,
            )
        finally:
            for proxy in proxies:
                await proxy.close()

    # What is done ---------------------------------------------------------------------------

    async def _cell(self, kind: Kind, link: str) -> float:
        """Seconds until all had arrived."""
        toxic, wire = drawn(kind, self._rng), self._wires[link]
        self.stack.doing = f"{kind.value} on {link} ({toxic.amount:.2f})"
        await self._carries(link)
        wire.poison(toxic)
        await asyncio.sleep(self._rng.uniform(*LASTS_S))  # the fault itself: so long it lasts
        with contextlib.suppress(Wrong):
            await self.stack.until(lambda: _touched(wire.met(), kind), "it", MEETS_S)
        met = await wire.heal()
        if not _touched(met, kind):
            raise Wrong(f"{self.stack.doing}: it met {met}")
        self.met.add(met)
        took = await self.stack.caught_up()
        self.took.setdefault(link, []).append(took)
        await self._carries(link)
        return took

    async def _carries(self, *links: str) -> None:
        """Each of them. Raises Wrong."""
        for link in links:
            wire = self._wires[link]
            before = wire.carried
            await self.stack.until(lambda: wire.carried > before, f"bytes on {link}")  # noqa: B023

    async def _swizzle(self) -> float:
        """Seconds until all had arrived. No two links of one connection are clogged at once."""
        choices = [link for link in LINKS if link != "drainer-pump"]
        chosen = self._rng.sample(choices, self._rng.randint(2, len(choices)))
        order = self._rng.sample(chosen, len(chosen))
        self.stack.doing = f"swizzle-clog of {', '.join(chosen)}; released {', '.join(order)}"
        await self._carries(*chosen)
        for link in chosen:
            self._wires[link].poison(CLOG)
            await asyncio.sleep(self._rng.uniform(0.1, 0.8))  # the fault itself
        for link in order:
            self.met.add(await self._wires[link].heal())
            await asyncio.sleep(self._rng.uniform(0.1, 0.8))  # the fault itself
        took = await self.stack.caught_up()
        self.took.setdefault("swizzle-clog", []).append(took)
        await self._carries(*chosen)
        return took

    def summary(self) -> str:
        slowest = ", ".join(f"{link} {max(took):.1f} s" for link, took in self.took.items())
        return (
            f"{len(self.stack.ledger.order)} transactions ({self.stack.load.ddls} DDLs), each read"
            f" once and in order, the downstream equal; toxics met {self.met.bytes} bytes and ended"
            f" {self.met.cuts} connections; all had arrived at the latest after: {slowest};"
            f" {self.seconds:.0f} s\n"
            + last_line("network faults", self.cells + self.swizzles, f"seed {self.seed}")
        )


def _touched(met: Met, kind: Kind) -> bool:
    return met.touched(kind) or (kind is Kind.TIMEOUT and met.bytes > 0)


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--swizzles", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", help="one cell, TOXIC:LINK")
    options = parser.parse_args(argv)
    configure("auto", "error")
    cells = [cell for cell in ALL if options.only in (None, f"{cell[0].value}:{cell[1]}")]
    if options.only and not cells:
        parser.error(f"no such cell: {options.only}")
    cells *= options.repeats
    if not cells and options.swizzles < 1:
        parser.error("nothing is to be tried")
    random.Random(options.seed).shuffle(cells)
    with (
        tempfile.TemporaryDirectory(prefix="network-faults-") as directory,
        nats_server(Path(directory)) as nats,
        mariadb_server(Path(directory), *UNSYNCED) as database,
    ):
        rig = Rig(nats, database, Path(directory), seed=options.seed)
        try:
            asyncio.run(rig.run(cells, options.swizzles, lambda what: print(what, flush=True)))
        except Wrongs as error:
            print(f"cell {rig.cells} of seed {options.seed}: {error}")
            return 1
    print(rig.summary())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
