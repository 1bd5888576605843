"""`tidelog.connect`: a writer on the real ports."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from tidelog import logs
from tidelog.pump_client.client import PumpClient
from tidelog.pump_client.writer import COMMIT_TIMEOUT_S, Writer
from tidelog.real.bus import NatsBus
from tidelog.real.clock import RealClock
from tidelog.real.disk import RealDisk
from tidelog.real.rng import RealRng
from tidelog.security.access import NatsAccess
from tidelog.security.tls import TlsFiles


@asynccontextmanager
async def connect(
    nats_url: str,
    *,
    cluster: str = "default",
    cluster_id: int = 0,
    state_dir: str | Path | None = None,
    strategy: str = "range",
    labels: Mapping[str, str] | None = None,
    transport: str = "nats",
    timeout_s: float | None = 30.0,
    commit_timeout_s: float = COMMIT_TIMEOUT_S,
    nats_nkey_file: str = "",
    nats_ca: str = "",
    nats_cert: str = "",
    nats_key: str = "",
    tls: TlsFiles | None = None,
) -> AsyncIterator[Writer]:
    """Write to the Pumps of a cluster:

        async with tidelog.connect("nats://127.0.0.1:4222", state_dir="state") as client:
            async with client.transaction() as txn:
                txn.insert("shop.item", {"id": 1, "name": "pencil"})

    `cluster` and `cluster_id` as the services have them. `state_dir`: a directory of this writer's
    own, where it keeps what it decided: with it a restarted writer answers for its earlier life.
    Without one, a writer that dies between a Prewrite and its Commit leaves a transaction that
    only an operator can decide (`tidelog resolve`), and the stream waits for that. `strategy`,
    `labels` and `transport`: see PumpClient. `timeout_s`: how long to wait for NATS, None for ever.
    `commit_timeout_s`: see Writer. `nats_…`: paths of the key that says who you are, and of PEM
    files for TLS; `tls`: of the Pumps' gRPC; see docs/security.md.

    Raises Unavailable, ForeignDirectory (another process has the directory), Corrupt,
    Unauthenticated, Untrusted, Forbidden.
    """
    logs.quiet()
    disk = None if state_dir is None else RealDisk(state_dir)
    access = NatsAccess(
        nats_nkey_file=nats_nkey_file, nats_ca=nats_ca, nats_cert=nats_cert, nats_key=nats_key
    )
    bus = await NatsBus.connect(nats_url, name="tidelog-writer", timeout_s=timeout_s, access=access)
    clock, rng = RealClock(), RealRng()
    try:
        client = PumpClient(
            bus,
            cluster,
            cluster_id,
            clock,
            rng,
            strategy=strategy,
            labels=labels,
            transport=transport,
            tls=tls,
        )
        async with Writer(
            client, bus, clock, rng, disk, cluster=cluster, commit_timeout_s=commit_timeout_s
        ) as writer:
            yield writer
    finally:
        await bus.close()
