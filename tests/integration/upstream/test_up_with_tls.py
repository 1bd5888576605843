"""`tidelog up` under a TiDB cluster that wants a certificate of everybody.

PD, the etcd in it, and a TiDB's status address are fakes behind real TLS.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import grpc

from tests.acceptance.status_api import status_api
from tests.adapters.security.fake_server import context
from tests.adapters.security.pki import CLIENT, SERVER, Authority, Pair
from tests.fixtures.capture import ddl_history, ddl_history_json
from tests.processes import until
from tests.topology import tidelog, up
from tests.unit.upstream.fake_etcd import FakeEtcd
from tests.unit.upstream.fake_net import Answer, FakeNet, served
from tests.unit.upstream.fake_pd import CLUSTER, FakePd
from tidelog.errors import EXIT_UNAVAILABLE

ENTRIES = b"/tidb-binlog/v1/"


class Upstream(NamedTuple):
    """`asked`: the options of `up` that lead there; `proof`: those without which nobody answers."""

    asked: tuple[str, ...]
    proof: tuple[str, ...]
    pd: FakePd
    etcd: list[FakeEtcd]

    def shown(self) -> set[bytes]:
        """Names of our nodes in PD."""
        keys = self.etcd[0].keys
        return {key.removeprefix(ENTRIES) for key in keys if key.startswith(ENTRIES)}


def asking(authority: Authority, pair: Pair) -> grpc.ServerCredentials:
    """Nobody without a certificate."""
    ca, cert, key = (Path(file).read_bytes() for file in (authority.ca, *pair))
    return grpc.ssl_server_credentials([(key, cert)], ca, require_client_auth=True)


@asynccontextmanager
async def cluster(directory: Path) -> AsyncIterator[Upstream]:
    authority = Authority(directory, "authority")
    own = authority.issue("tidelog", uses=[CLIENT])
    theirs = authority.issue("tidb", uses=[SERVER])
    net = FakeNet()
    pd = FakePd(net, wall_ms=lambda: int(time.time() * 1000))
    etcd: list[FakeEtcd] = []

    def member(address: str) -> Answer:
        net.servers[address] = pd.server(address)
        etcd.append(FakeEtcd(net, address, cluster_id=CLUSTER))
        return net.servers[address]

    tls = context(theirs, ca=authority.ca, ask=True)
    async with served(net, member, asking(authority, theirs)) as address:
        with status_api(ddl_history_json("set-a"), tls) as history:
            where = ("--oracle", "pd", "--pd-urls", f"https://{address}", "--ddl-history", history)
            yield Upstream(
                (*where, "--upstream-ca", authority.ca),
                ("--upstream-cert", own.cert, "--upstream-key", own.key),
                pd,
                etcd,
            )


def test_pd_and_a_status_address_are_asked_with_our_certificate(tmp_path: Path) -> None:
    newest = max(job.id for job in ddl_history("set-a"))

    def runs(upstream: Upstream) -> None:
        options = (*upstream.asked, *upstream.proof, "--pumps", "1")
        with up(tmp_path / "top", "blackhole:", *options) as running:
            state = json.loads((tmp_path / "top" / "tidelog.json").read_text())
            assert state["cluster_id"] == CLUSTER
            until(
                lambda: running.said("publisher", "drainer")["schema"]["last_job"] == newest,
                "the schema of the status address",
            )
            until(
                lambda: upstream.shown() == {b"pumps/pump-1", b"drainers/drainer"},
                "the nodes in PD",
            )
            assert upstream.pd.counts, "no timestamp was asked of PD"

    async def main() -> None:
        async with cluster(tmp_path) as upstream:
            await asyncio.to_thread(runs, upstream)

    asyncio.run(main())


def test_without_it_up_says_so_and_starts_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with cluster(tmp_path) as upstream:
            place = ("--dir", str(tmp_path / "top"), "--downstream", "blackhole:")
            ended = await asyncio.to_thread(tidelog, "up", *place, *upstream.asked)
            assert ended.returncode == EXIT_UNAVAILABLE, ended.stderr
            assert "cluster id is not known" in ended.stderr
            assert "--upstream-cert" in ended.stderr
            assert not (tmp_path / "top" / "tidelog.json").exists()

    asyncio.run(main())
