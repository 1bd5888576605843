"""The bench's pure parts: what is printed must follow from what was measured."""

import asyncio
import io
import math

import msgspec
import pytest
from rich.console import Console

from bench import report
from bench.figure import Figure, Limit, Range, Spread, Usage, median, quantile, spread
from bench.load import closed_loop
from bench.outlook import Outlook
from bench.profile import parse
from bench.progress import FEWEST, LONG_S, Sample, TooLittle, follow, is_enough, pace, speed
from bench.result import Section
from bench.runs import merged, merged_limits

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


def test_the_last_line_says_which_aims_were_missed_and_which_bounds() -> None:
    slow = figure(2000, aim=2500.0, name="slow")
    small = figure(57.9, aim=200.0, lower_is_better=True, bound=True)
    huge = figure(201.0, aim=200.0, lower_is_better=True, bound=True, name="huge")
    exceeded = [one.exceeded for one in (slow, small, huge, figure(9, bound=True))]
    assert exceeded == [False, False, True, False]
    assert report.verdict([slow, small, figure(9)]) == (
        "bench: 3 figures, 1 of 2 aims reached; missed: slow"
    )
    assert report.verdict([huge]) == "bench: 1 figures, 0 of 1 aims reached; EXCEEDED: huge"
    out = io.StringIO()
    report.show(Console(width=60, file=out), [], [slow, small, huge])
    text = out.getvalue()
    assert text.splitlines()[-1].endswith("missed: slow; EXCEEDED: huge")
    assert "busy cores" not in text


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
        "1.50 / – / 9.0",
        "0.78",
        "24.3k",
        "remark",
    ):
        assert part in text
    assert found.usage is not None
    assert report.costs(found.usage, found.value) == "pump-1 200"


def test_few_calls_have_no_p99() -> None:
    assert spread([0.001] * 98 + [0.5, 0.9]).tail == ("p99", 500.0)
    assert spread([0.001] * 97 + [0.5, 0.9]).tail == ("most", 900.0)


def test_several_runs_show_the_one_in_the_middle() -> None:
    values = ((100.0, 1000.0), (300.0, 2000.0), (200.0, 4000.0))
    runs = [[figure(value, limit=Limit("echo", limit, "calls/s"))] for value, limit in values]
    (one,) = merged(runs)
    assert (one.value, one.runs) == (200.0, Range(3, 100.0, 200.0, 300.0))
    assert one.limit is not None
    assert (one.limit.value, one.limit.runs) == (4000.0, Range(3, 1000.0, 2000.0, 4000.0))
    # Each beside its own limit: 0.1, 0.15, 0.05; the middle figure over the middle limit is none.
    assert one.ratios == Range(3, 0.05, 0.05, 0.15)
    assert one.ratio == 0.05


def test_figures_of_several_runs_are_kept_apart_by_section_and_name() -> None:
    found = merged([[figure(1), figure(2, name="other")], [figure(3), figure(4, section="drain")]])
    assert [(f.section, f.name, f.runs and f.runs.n) for f in found] == [
        ("pump", "gRPC", 2),
        ("pump", "other", 1),
        ("drain", "gRPC", 1),
    ]
    limits = merged_limits([[LIMIT], [LIMIT, Limit("disk", 1.0, "MB/s")]])
    assert [(limit.name, limit.runs and limit.runs.n) for limit in limits] == [
        ("echo", 2),
        ("disk", 1),
    ]


def test_an_outlook_knows_what_was_measured_before_and_what_was_measured_now() -> None:
    outlook = Outlook(2, {"drain": 0.5, "pump": 1.0}, [Section("drain", 1.0, 600.0)])
    assert outlook.at_start() == "2 measurements, 2 times: about 14 min, and pump"
    assert outlook.begins("drain").startswith("run 1 of 2, 1 of 2: drain (0 min so far")
    outlook.took("drain", 120.0)
    outlook.begins("pump")
    outlook.took("pump", 60.0)
    assert outlook.begins("drain") == (
        "run 2 of 2, 1 of 2: drain (0 min so far, about 3 min to go)"
    )
    assert outlook.sections() == [Section("drain", 0.5, 120.0), Section("pump", 1.0, 60.0)]


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
    with pytest.raises(TooLittle, match="before the first look"):
        speed([Sample(10.0, 500)])


def test_a_pace_begins_with_the_first_thing_done() -> None:
    waited = [Sample(0.0, 0), Sample(1.5, 0)]
    worked = [Sample(2.0 + 0.1 * n, 300 + 50 * n) for n in range(FEWEST)]
    assert pace([*waited, *worked]) == pytest.approx(500)


def test_a_pace_of_too_few_samples_is_refused() -> None:
    worked = [Sample(0.1 * n, 50 * n) for n in range(FEWEST)]
    with pytest.raises(TooLittle, match=f"after {FEWEST - 1} looks, and a pace needs {FEWEST}"):
        pace(worked)
    assert pace([*worked, Sample(0.1 * FEWEST, 50 * FEWEST)]) == pytest.approx(500)


def test_samples_are_enough_when_they_are_many_and_took_long() -> None:
    def spread_over(count: int, seconds: float) -> list[Sample]:
        return [Sample(seconds * n / (count - 1), n + 1) for n in range(count)]

    assert is_enough(spread_over(FEWEST, LONG_S))
    assert not is_enough(spread_over(FEWEST, LONG_S - 0.1))
    assert not is_enough(spread_over(FEWEST - 1, 2 * LONG_S))
    assert not is_enough([])


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
