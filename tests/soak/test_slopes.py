"""A slope that is there is seen, noise is none."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

from tests.soak.judge import LIMIT, SLACK, judged
from tests.soak.slopes import Sample, is_flat, slope, warm
from tests.soak.so_far import Asked, SoFar
from tests.soak.soak import KILLED_TO_THE_END, VICTIMS, victims_at
from tests.soak.watch import BLOCK, Watch

HOURS_3 = 3 * 3600


def samples(
    per_hour: float, *, noise: float = 2.0, life_s: int = 180, seed: int = 1
) -> list[Sample]:
    """Of a process of 100 MiB that is killed now and then, and is smaller while it is young."""
    rng = random.Random(seed)
    found = []
    for at in range(0, HOURS_3, 10):
        age = at % life_s
        young = 20.0 if age < 20 else 0.0
        value = 100 * (1 + per_hour * at / 3600) + rng.gauss(0, noise) - young
        found.append(Sample(float(at), at // life_s, float(age), value))
    return found


def test_growth_is_seen_through_kills_and_noise() -> None:
    for per_hour in (0.05, 0.1, -0.1):
        line = slope(warm(samples(per_hour), 20))
        assert abs(line.per_hour * line.mean - 100 * per_hour) < 0.5  # MiB
        assert line.above(LIMIT) == (per_hour > 0)


def test_what_fills_up_at_the_start_is_no_growth() -> None:
    filling = [one._replace(value=min(100.0, 50 + one.at_s / 12)) for one in samples(0.0)]
    assert slope(warm(filling, 20)).per_hour > LIMIT
    assert slope(warm(filling, 20, 600)).per_hour == 0


def test_noise_is_no_growth() -> None:
    assert not any(slope(warm(samples(0.0, seed=n), 20)).above(LIMIT) for n in range(50))


def test_what_is_too_noisy_to_tell_is_no_proof_of_none() -> None:
    assert slope(warm(samples(0.0), 20)).tells(LIMIT)
    short = [one for one in samples(0.0, noise=10.0) if one.at_s < 2700]
    assert not slope(warm(short, 20)).tells(LIMIT)
    assert not slope(short[:1]).tells(LIMIT)


def test_one_long_life_that_wanders_does_not_grow() -> None:
    """Memory of a process stays for a while where it is: its samples tell less than they are."""
    rng = random.Random(3)
    for _ in range(20):
        value, wandering = 30.0, []
        for one in samples(0.0, life_s=HOURS_3):
            value += 0.05 * (30.0 - value) + rng.gauss(0, 0.8)
            wandering.append(one._replace(value=value))
        assert not slope(warm(wandering, 20)).above(LIMIT)


def test_one_life_and_two_samples() -> None:
    line = slope(warm(samples(0.05, life_s=HOURS_3), 20))
    assert line.above(LIMIT)
    assert not slope([Sample(0, 0, 30, 5.0)]).above(LIMIT)
    assert slope([Sample(0, 0, 30, 0.0), Sample(1, 0, 31, 0.0)]).per_hour == 0


def test_descriptors_that_pile_up_are_seen() -> None:
    held = [Sample(float(at), 0, float(at), 20.0 + at % 7) for at in range(90)]
    piled = [one._replace(value=one.value + one.at_s / 2) for one in held]
    assert is_flat(held, SLACK)
    assert not is_flat([one._replace(value=one.value * 3) for one in piled], SLACK)
    assert is_flat(held[:1], SLACK)


def topology(directory: Path, so_far: SoFar) -> Watch:
    pids = {"nats": os.getpid(), "pump-1": os.getpid()}
    (directory / "tidelog.json").write_text(json.dumps({"pids": pids}))
    return Watch(directory, so_far, os.getpid())


def test_what_nats_holds_of_a_bucket_until_it_is_full_is_no_growth(tmp_path: Path) -> None:
    for bucket in range(4):
        blocks = tmp_path / f"nats/store/jetstream/$G/streams/KV_{bucket}/msgs"
        blocks.mkdir(parents=True)
        for name in ("9.blk", "10.blk"):
            (blocks / name).write_bytes(bytes(BLOCK))
    so_far = SoFar(seed=1, asked=Asked(60, 500, 30))
    topology(tmp_path, so_far).look()
    ((nats,), (pump,)) = so_far.rss["nats"], so_far.rss["pump-1"]
    assert 14 < pump.value - nats.value < 18


def soaked(
    seconds: float, rss: list[Sample], descriptors: list[Sample], name: str = "pump-1"
) -> SoFar:
    asked = Asked(seconds, 500, 30)
    return SoFar(
        seed=1, asked=asked, seconds=seconds, rss={name: rss}, descriptors={name: descriptors}
    )


def test_what_a_long_run_and_a_short_one_are_judged_by() -> None:
    fine, grows = samples(0.0), samples(0.1)
    few = [one._replace(value=20.0) for one in fine]
    assert judged(soaked(HOURS_3, fine, few), 20, BLOCK) == ([], [])
    assert any("grows by" in line for line in judged(soaked(HOURS_3, grows, few), 20, BLOCK)[0])
    assert judged(soaked(60, grows, few), 20, BLOCK)[0] == []
    huge = [one._replace(value=one.value * 9) for one in fine]
    assert any("MiB" in line for line in judged(soaked(60, huge, few), 20, BLOCK)[0])
    more = [one._replace(value=one.at_s / 100) for one in few]
    assert any("descriptors" in line for line in judged(soaked(HOURS_3, fine, more), 20, BLOCK)[0])


def test_what_is_too_noisy_is_named() -> None:
    noisy = [one._replace(value=20.0) for one in samples(0.0)]
    assert judged(soaked(HOURS_3, samples(0.0, noise=300.0), noisy), 20, BLOCK) == ([], ["pump-1"])


def in_lives(lives: list[tuple[float, float]], per_hour: float) -> list[Sample]:
    """Of a process that began at these times and ended at those, and grows while it lives."""
    rng = random.Random(1)
    return [
        Sample(at, life, at - begins, 100 * (1 + per_hour * (at - begins) / 3600) + rng.gauss(0, 1))
        for life, (begins, ends) in enumerate(lives)
        for at in (begins + 10 * n for n in range(int(ends - begins) // 10))
    ]


def test_what_a_process_collects_while_it_lives_shows_in_a_life_that_is_spared() -> None:
    """Killed each three minutes it shows nowhere, however much it is."""
    killed = [(float(at), at + 180.0) for at in range(0, HOURS_3, 180)]
    leaks = in_lives(killed, per_hour=2.0)
    few = [one._replace(value=20.0) for one in leaks]
    assert judged(soaked(HOURS_3, leaks, few), 20, BLOCK)[0] == []
    spared = [*killed[:40], (7200.0, float(HOURS_3))]
    leaks = in_lives(spared, per_hour=2.0)
    few = [one._replace(value=20.0) for one in leaks]
    found = judged(soaked(HOURS_3, leaks, few), 20, BLOCK)[0]
    assert any("pump-1, life 40, grows by" in line for line in found)
    more = [one._replace(value=20 + one.age_s / 30) for one in leaks]
    flat = in_lives(spared, per_hour=0.0)
    found = judged(soaked(HOURS_3, flat, more), 20, BLOCK)[0]
    assert any("pump-1, life 40, holds more and more descriptors" in line for line in found)


def test_a_spared_life_whose_growth_can_t_be_told_is_named_with_its_slope() -> None:
    """Above the limit, and not surely: neither wrong nor fine."""
    killed = [(float(at), at + 180.0) for at in range(0, 7200, 180)]
    wanders = in_lives([*killed, (7200.0, float(HOURS_3))], per_hour=0.02)
    wanders = [one._replace(value=one.value + one.age_s // 180 % 2) for one in wanders]
    few = [one._replace(value=20.0) for one in wanders]
    found = judged(soaked(HOURS_3, wanders, few), 20, BLOCK)
    assert found == ([], ["pump-1's life 40 (+2.6 ± 0.7 %/h)"])


def test_parts_hide_nothing_of_who_begins_anew_with_each() -> None:
    for parts in (1, 2, 3):
        each = HOURS_3 / parts
        leaks = in_lives([(n * each, (n + 1) * each) for n in range(parts)], per_hour=0.1)
        few = [one._replace(value=20.0) for one in leaks]
        found = judged(soaked(HOURS_3, leaks, few, "up"), 20, BLOCK)[0]
        assert any(f"up, life {parts - 1}, grows by" in line for line in found), parts


def test_who_is_spared_and_when() -> None:
    assert victims_at(HOURS_3 - 3601, HOURS_3) == victims_at(0, HOURS_3) == VICTIMS
    assert victims_at(HOURS_3 - 3600, HOURS_3) == KILLED_TO_THE_END
    assert victims_at(59, 60) == victims_at(3599, 3600) == VICTIMS
