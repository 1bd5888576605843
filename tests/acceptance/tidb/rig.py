"""A real TiDB cluster as the upstream (issue 11, Done when 4), by hand:

    python -m tests.acceptance.tidb.rig --pd-server P --store S --tidb-server T [--seconds 120]

Two Pumps that TiDB finds in PD, timestamps from PD, the schema from TiKV's meta keys, MariaDB as
the downstream. Under load each Pump and the TiDB are killed by SIGKILL; what the TiDB left
undecided is asked of its store. At the end `tidelog verify` compares source and downstream.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.acceptance.tidb.cluster import Binaries, Cluster
from tests.acceptance.tidb.load import Load
from tests.markers import marked
from tests.servers import mariadb_server
from tests.topology import Running, tidelog, up
from tidelog.change_reader import ChangeReader
from tidelog.real.bus import NatsBus
from tidelog.sim.checker import Findings, StreamChecker

WRITERS = 8
LEAST_PER_S = 5
"""A run with fewer transactions a second says nothing."""
SETTLE_S = 300.0
FEED = "main"
END_S = 20.0
ENVIRONMENT = {"TIDELOG_PUMP_TXN_TIMEOUT_S": "30"}
"""So soon a dead TiDB's transaction is ended at its primary lock, if nobody else comes by it."""


async def under_load(cluster: Cluster, running: Running, load: Load, seconds: float) -> None:
    """One Pump is killed after a third of the time, the other one and TiDB after two thirds."""
    writers = (load.write(number) for number in range(WRITERS))
    tasks = [asyncio.create_task(one) for one in (*writers, load.change(), load.probe())]
    try:
        await asyncio.sleep(seconds / 3)
        await asyncio.to_thread(running.kill, "pump-1")
        print(f"pump-1 killed after {load.transactions} transactions", flush=True)
        await asyncio.sleep(seconds / 3)
        await asyncio.to_thread(running.kill, "pump-2")
        await asyncio.to_thread(cluster.tidb.kill)
        print(f"pump-2 and TiDB killed after {load.transactions} transactions", flush=True)
        await asyncio.to_thread(cluster.tidb.start)
        await asyncio.sleep(seconds / 3)
    finally:
        load.running = False
        _, hung = await asyncio.wait(tasks, timeout=END_S)
        for task in hung:  # a statement of a TiDB that waits for a dead one's locks
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    print(f"the load ended, {len(hung)} statements given up", flush=True)


def doctor(cluster: Cluster) -> None:
    done = tidelog(
        "doctor", "--upstream", cluster.pd_url, "--source", f"mysql://root@127.0.0.1:{cluster.sql}/"
    )
    print(done.stdout + done.stderr, flush=True)
    assert done.returncode == 0, "the doctor finds something wrong"
    assert "without a unique key" not in done.stdout, "every table has a primary key"


def pumps(running: Running) -> None:
    """Both took part, and what the dead TiDB left was decided by its store."""
    verdicts: Counter[str] = Counter()
    for pump in ("pump-1", "pump-2"):
        given = running.counted(pump, "tidelog_pump_pulled_transactions")
        print(f"{pump}: {given:.0f} transactions since it was killed", flush=True)
        assert given, f"TiDB left {pump} alone"
        verdicts.update(running.said("resolver", pump)["verdicts"])
    print(f"asked of the store: {dict(verdicts)}", flush=True)
    assert verdicts.total(), "nothing was asked of the store, though the TiDB was killed"


async def stream(running: Running, upto: int) -> StreamChecker:
    """The whole of it, as an application reads it: each transaction once, in commit order."""
    bus = await NatsBus.connect(running.nats, timeout_s=10)
    reader = ChangeReader(bus, FEED, 0)
    checker = StreamChecker(Findings())
    try:
        async with asyncio.timeout(SETTLE_S):
            while checker.position < upto:
                for change in await reader.next(1.0):
                    checker.take(change)
        await marked(bus, FEED)
    finally:
        await reader.close()
        await bus.close()
    assert checker.findings.clean, checker.findings.text("of this run")
    return checker


def report(load: Load, seconds: float, settled: float) -> None:
    found = sorted(load.latencies)
    assert found, "no row of the probe arrived"
    p99 = found[int(len(found) * 0.99)]
    print(
        f"{load.transactions} transactions of {load.statements} statements"
        f" ({load.transactions / seconds:.0f}/s), {dict(load.ddls)};"
        f" errors of TiDB's {dict(load.errors)}"
    )
    print(
        f"a probe's row downstream after {1e3 * statistics.median(found):.0f} ms (median),"
        f" {1e3 * p99:.0f} ms (p99), {1e3 * found[-1]:.0f} ms at most, of {len(found)};"
        f" all applied {settled:.1f} s after the load"
    )
    for number, text in load.told.items():
        print(f"  {number}: {text}")


def run(binaries: Binaries, seconds: float, seed: int, home: Path) -> bool:
    cluster = Cluster(binaries, home)
    try:
        cluster.pd.start()
        cluster.store.start()
        with mariadb_server(home) as db:
            copy = f"mysql://root@127.0.0.1:{db.port}/"
            options = ("--oracle", "pd", "--ddl-history", "pd", "--pd-urls", cluster.pd_url)
            with up(home / "top", copy, *options, environment=ENVIRONMENT) as running:
                cluster.await_pumps(2)
                cluster.tidb.start()
                load = Load(cluster.sql, db.port, seed)
                asyncio.run(load.prepare())
                doctor(cluster)
                asyncio.run(under_load(cluster, running, load, seconds))
                ended = time.monotonic()
                newest = asyncio.run(load.newest_ts())
                running.wait(newest, SETTLE_S)
                report(load, seconds, time.monotonic() - ended)
                pumps(running)
                read = asyncio.run(stream(running, newest)).seen
                assert len(read) >= load.transactions, f"{len(read)} transactions in the stream"
                print(f"the stream: {len(read)} transactions, each once, in commit order")
                source = f"mysql://root@127.0.0.1:{cluster.sql}/"
                done = running.command("verify", "--source", source, "--downstream", copy)
                print(done.stdout + done.stderr)
    finally:
        cluster.stop()
    equal = done.returncode == 0 and load.transactions >= LEAST_PER_S * seconds
    verdict = "source and downstream equal" if equal else "NOT EQUAL"
    print(f"TIDB: {load.transactions} transactions, {verdict} (seed {seed})")
    return equal


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pd-server", type=Path, required=True)
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--tidb-server", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args(argv)
    binaries = Binaries(chosen.pd_server, chosen.store, chosen.tidb_server)
    with tempfile.TemporaryDirectory(prefix="tidb-") as directory:
        equal = run(binaries, chosen.seconds, chosen.seed, Path(directory))
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
