"""The bench's pure parts: what is printed must follow from what was measured."""

import asyncio
import json
import math
import xml.etree.ElementTree as ET
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from bench import chart, report
from bench.figure import Figure, Limit, Spread, Usage, median, quantile, spread
from bench.load import closed_loop
from bench.profile import parse
from bench.progress import Sample, follow, speed

LIMIT = Limit("echo", 4000.0, "calls/s")


def figure(value: float, **more: object) -> Figure:
    made = Figure("pump", "gRPC", value, "binlogs/s", LIMIT)
    return msgspec.structs.replace(made, **more)


def test_quantiles_are_values_that_were_measured() -> None:
    ordered = [float(n) for n in range(1, 101)]
    assert quantile(ordered, 0.5) == 50
    assert quantile(ordered, 0.99) == 99
    assert quantile(ordered, 1.0) == 100
    assert quantile([7.0], 0.5) == quantile([7.0], 0.99) == 7
    assert math.isnan(quantile([], 0.5))
    assert median([3, 1, 2]) == 2
    assert spread([0.003, 0.001, 0.002]) == Spread(3, 2.0, 3.0, 3.0)


def test_an_aim_is_a_value_or_a_share_of_the_limit() -> None:
    assert figure(2000).ratio == 0.5
    assert figure(2000).reached is None
    assert figure(2000, aim=1500.0).reached is True
    assert figure(2000, aim=2500.0).reached is False
    assert figure(2000, aim_of_limit=0.75).reached is False
    assert figure(3000, aim_of_limit=0.75).reached is True
    assert figure(2000, limit=None).ratio is None


def test_a_latency_reaches_its_aim_from_above() -> None:
    latency = figure(25.0, aim=20.0, lower_is_better=True)
    assert latency.reached is False
    assert msgspec.structs.replace(latency, value=19.0).reached is True


def test_the_table_names_everything_beside_the_figure() -> None:
    shown = Console(width=200, quiet=True)
    found = figure(
        3100.0,
        aim_of_limit=0.75,
        original="24.3k",
        spread=Spread(9, 1.5, 7.25, 9.0),
        usage=Usage({"pump-1": 0.62, "nats": 0.0}, {"pump-1": 0.31, "nats": 0.01}),
        note="a remark",
    )
    with shown.capture() as captured:
        shown.quiet = False
        report.show(shown, [LIMIT], [found])
    text = captured.get()
    for part in (
        "≥ 0.75 × limit",
        "3100 binlogs/s",
        "1.50 / 7.25 / 9.0",
        "0.78",
        "24.3k",
        "remark",
    ):
        assert part in text
    assert found.usage is not None
    assert report.costs(found.usage, found.value) == "pump-1 200"


def test_json_holds_ratio_and_verdict(tmp_path: Path) -> None:
    path = tmp_path / "out" / "bench.json"
    report.write_json(path, [LIMIT], [figure(3000.0, aim_of_limit=0.75)])
    body = json.loads(path.read_text())
    assert body["limits"][0]["value"] == 4000
    assert (body["figures"][0]["ratio"], body["figures"][0]["reached"]) == (0.75, True)


def test_the_chart_is_svg_with_a_bar_and_a_tick_each() -> None:
    figures = [
        figure(3000.0, aim_of_limit=0.75, name="a < b"),
        figure(40_000.0, aim=60_000.0),
        figure(1.0, limit=None),
        figure(20.0, lower_is_better=True),
    ]
    root = ET.fromstring(chart.svg(figures))
    bars = [
        float(r.attrib["width"])
        for r in root.iter("{http://www.w3.org/2000/svg}rect")
        if r.attrib["fill"] == chart.BAR
    ]
    assert len(bars) == 2
    assert bars[0] == pytest.approx(0.75 * chart.WIDTH / 4, abs=0.1)
    assert bars[1] == chart.WIDTH  # ten times its limit: cut at the edge
    assert len(list(root.iter("{http://www.w3.org/2000/svg}line"))) == 1
    assert "a < b" in "".join(root.itertext())


def test_a_closed_loop_counts_what_comes_after_the_warm_up() -> None:
    async def run() -> tuple[int, float]:
        calls = 0

        async def step(taken: list[float]) -> None:
            nonlocal calls
            calls += 1
            await asyncio.sleep(0.005)
            taken.append(0.005)

        load = await closed_loop(4, 0.1, step, warm_up=0.1)
        return calls - load.spread.n, load.rate

    before, rate = asyncio.run(run())
    assert before > 0
    assert rate > 0


def test_speed_is_between_the_first_and_the_last_look() -> None:
    assert speed([Sample(10.0, 500), Sample(10.5, 700), Sample(12.0, 2500)]) == 1000
    with pytest.raises(ValueError, match="before the first look"):
        speed([Sample(10.0, 500)])


def test_follow_ends_at_the_total_and_stops_for_a_dead_service() -> None:
    done = iter([0, 0, 3, 3, 9])

    async def count() -> int:
        return next(done)

    async def collect() -> list[int]:
        return [s.done async for s in follow(count, 9, lambda: None, 10.0)]

    assert asyncio.run(collect()) == [0, 3, 9]

    def died() -> None:
        raise RuntimeError("drainer died")

    async def collect_dead() -> None:
        async for _ in follow(count, 9, died, 10.0):
            pass

    with pytest.raises(RuntimeError, match="drainer died"):
        asyncio.run(collect_dead())


def test_a_profile_counts_a_recursive_frame_once() -> None:
    costs = parse("main;a;b 3\nmain;a;a;b 2\nmain 1\n")
    assert costs.samples == 6
    assert costs.own == {"b": 5, "main": 1}
    assert costs.whole == {"main": 6, "a": 5, "b": 5}
