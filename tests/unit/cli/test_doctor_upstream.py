"""What `tidelog doctor --upstream` says of PD and TiKV."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from tests.fixtures import capture
from tests.unit.upstream.fake_net import FakeNet, served
from tests.unit.upstream.fake_pd import CLUSTER, FakePd
from tests.unit.upstream.fake_tikv import STORES, FakeTikv
from tidelog.real.clock import RealClock
from tidelog.sim import World, run
from tidelog.upstream.config import UpstreamConfig
from tidelog_cli.doctor import examining
from tidelog_cli.doctor.examination import CHECK_S
from tidelog_cli.doctor.examining import Asked
from tidelog_cli.doctor.finding import OK, UNKNOWN, WARNING, WRONG, Finding
from tidelog_cli.doctor.upstream import check_upstream

PDS = ("pd1:2379", "pd2:2379")


class Bed:
    def __init__(self, world: World) -> None:
        self._world = world
        self.net = FakeNet()
        self.pd = FakePd(self.net, *PDS, wall_ms=world.clock().wall_ms)
        self.tikv = FakeTikv(self.net, self.pd)
        for key, value in capture.meta_kv("set-a"):
            self.tikv.key(key).value = value

    async def found(self, *, cluster_id: int = CLUSTER, sql: bool = True) -> dict[str, Finding]:
        clock, urls = self._world.clock(), self.pd.urls
        began = self._world.loop.time()
        found = await check_upstream(self.net, clock, urls, cluster_id=cluster_id, asks_sql=sql)
        assert self._world.loop.time() - began < CHECK_S
        return {finding.about or finding.check: finding for finding in found}


def play(body: Callable[[Bed], Awaitable[None]]) -> None:
    async def main(world: World) -> None:
        await body(Bed(world))

    run(main)


def verdicts(found: dict[str, Finding]) -> dict[str, str]:
    return {about: finding.verdict for about, finding in found.items()}


WELL = {
    "PD pd1:2379": OK,
    "PD pd2:2379": OK,
    "timestamps of PD": OK,
    "PD": OK,
    "TiKV": OK,
}


def test_all_that_is_well() -> None:
    async def body(bed: Bed) -> None:
        found = await bed.found()
        assert verdicts(found) == WELL
        assert f"of cluster {CLUSTER}, led by pd1:2379" in found["PD pd2:2379"].says

    play(body)


def test_what_only_sql_shows_is_unknown_without_it() -> None:
    async def body(bed: Bed) -> None:
        found = await bed.found(sql=False)
        assert verdicts(found) == WELL | {"TiDB": UNKNOWN}
        assert "--source" in found["TiDB"].hint

    play(body)


def test_one_that_is_away_is_named_and_the_others_serve() -> None:
    async def body(bed: Bed) -> None:
        bed.net.down.add(PDS[1])
        assert verdicts(await bed.found()) == WELL | {"PD pd2:2379": WRONG}

    play(body)


def test_none_answers() -> None:
    async def body(bed: Bed) -> None:
        bed.net.silent.update(PDS)
        found = await bed.found()
        assert verdicts(found) == dict.fromkeys(
            ("PD pd1:2379", "PD pd2:2379", "timestamps of PD"), WRONG
        )

    play(body)


def test_another_cluster_is_named() -> None:
    async def body(bed: Bed) -> None:
        found = await bed.found(cluster_id=CLUSTER + 1)
        assert set(verdicts(found).values()) == {WRONG}
        assert f"the PD is of cluster {CLUSTER}, this one is {CLUSTER + 1}" in (
            found["timestamps of PD"].says
        )

    play(body)


def test_stores_that_say_nothing_or_hold_nothing() -> None:
    async def body(bed: Bed) -> None:
        bed.net.down.update(STORES.values())
        assert (await bed.found())["TiKV"].verdict == WRONG
        bed.net.down.clear()
        bed.tikv.keys.clear()
        assert (await bed.found())["TiKV"].verdict == WARNING

    play(body)


def test_it_is_one_of_the_checks() -> None:
    async def main() -> list[Finding]:
        net = FakeNet()
        pd = FakePd(net, wall_ms=RealClock().wall_ms)
        async with served(net, pd.server):
            asked = Asked(None, upstream=UpstreamConfig(pd_urls=pd.urls))
            return await examining.look(asked, RealClock())

    found = {finding.about: finding.verdict for finding in asyncio.run(main())}
    assert found["timestamps of PD"] == found["PD"] == OK
    assert found["TiKV"] == WRONG
    assert found["TiDB"] == UNKNOWN
