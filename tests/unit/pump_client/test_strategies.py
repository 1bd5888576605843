"""Who gets how much: 100,000 Prewrites under each strategy."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping

import pytest

from tidelog.actor import Ref
from tidelog.errors import BadInput, DiskFull
from tidelog.messages import ONLINE, PAUSED, NodeStatus
from tidelog.pump_client.delivery.send import Send
from tidelog.pump_client.routing.pump_list import PumpList
from tidelog.pump_client.routing.strategy import Strategy, make_strategy

BINLOGS = 100_000


def pump_list(statuses: Iterable[NodeStatus], labels: Mapping[str, str] | None = None) -> PumpList:
    """A list in which every Pump has a lane."""
    pumps = PumpList(labels)
    came, _ = pumps.learn(statuses, settled=True)
    for pump in came:
        pump.lane = Ref[Send](pump.node)
    pumps.refresh()
    return pumps


def online(node: str, score: int = 0, **label: str) -> NodeStatus:
    return NodeStatus(node, state=ONLINE, isAlive=True, score=score, label=label)


def timestamps(rng: random.Random) -> Iterable[int]:
    """As an oracle gives them: some in one millisecond count up, the next one begins at 0 again."""
    physical, logical = 1_700_000_000_000, 0
    while True:
        yield physical << 18 | logical
        if rng.random() < 0.6:
            physical, logical = physical + rng.randint(1, 40), 0
        else:
            logical += rng.randint(1, 3)


def shares(choose: Strategy, pumps: PumpList, seed: int = 1) -> Counter[str]:
    found: Counter[str] = Counter()
    stream = iter(timestamps(random.Random(seed)))
    for _ in range(BINLOGS):
        found[choose(pumps.near, next(stream), 0, ()).node] += 1
    return found


@pytest.mark.parametrize("count", [2, 3, 5, 8])
@pytest.mark.parametrize("strategy", ["range", "hash"])
def test_every_pump_gets_its_share_within_two_percent(strategy: str, count: int) -> None:
    """Of what is its share, not of all."""
    pumps = pump_list(online(f"p{n}") for n in range(count))
    found = shares(make_strategy(strategy), pumps)
    fair = BINLOGS / count
    assert all(abs(found[f"p{n}"] - fair) <= 0.02 * fair for n in range(count)), found


def test_the_originals_hash_would_not_pass() -> None:
    """What the mixing is for: start_ts mod 8 is a number within a millisecond."""
    found = Counter(
        start_ts % 8
        for start_ts, _ in zip(timestamps(random.Random(1)), range(BINLOGS), strict=False)
    )
    assert found[0] > 4 * BINLOGS / 8


@pytest.mark.parametrize("scores", [(50, 50), (90, 10), (10, 20, 70), (100, 1, 37, 64), (0, 0, 0)])
def test_shares_follow_the_scores_within_five_percent(scores: tuple[int, ...]) -> None:
    pumps = pump_list(online(f"p{n}", score) for n, score in enumerate(scores))
    found = shares(make_strategy("score"), pumps)
    weights = [max(1, score) for score in scores]
    for n, weight in enumerate(weights):
        wanted = BINLOGS * weight / sum(weights)
        assert abs(found[f"p{n}"] - wanted) <= 0.05 * wanted


def test_a_changed_score_counts_from_then_on() -> None:
    pumps = pump_list([online("p1", 90), online("p2", 10)])
    choose = make_strategy("score")
    shares(choose, pumps)
    pumps.learn([online("p1", 25), online("p2", 75)], settled=True)
    found = shares(choose, pumps)
    assert abs(found["p2"] - 0.75 * BINLOGS) <= 0.05 * 0.75 * BINLOGS


def test_a_high_score_is_not_served_in_bursts() -> None:
    pumps = pump_list([online("p1", 50), online("p2", 25), online("p3", 25)])
    choose = make_strategy("score")
    turns = [choose(pumps.near, n, 0, ()).node for n in range(400)]
    assert all(len(set(turns[at : at + 4])) == 3 for at in range(397))


@pytest.mark.parametrize("strategy", ["range", "hash", "score"])
def test_labels_come_first_and_others_only_when_none_is_available(strategy: str) -> None:
    pumps = pump_list(
        [
            online("p1", 10, zone="a", rack="1"),
            online("p2", 10, zone="a"),
            online("p3", 99, zone="b"),
            online("p4"),
        ],
        {"zone": "a"},
    )
    choose = make_strategy(strategy)
    assert set(shares(choose, pumps)) == {"p1", "p2"}
    pumps.failed(pumps.pumps["p1"], DiskFull("full"), 0.0)
    assert set(shares(choose, pumps)) == {"p2"}
    pumps.learn(
        [
            online("p1", zone="a"),
            NodeStatus("p2", state=PAUSED, isAlive=True, label={"zone": "a"}),
            online("p3", zone="b"),
            online("p4"),
        ],
        settled=True,
    )
    assert set(shares(choose, pumps)) == {"p3", "p4"}
    pumps.probed(pumps.pumps["p1"])
    assert set(shares(choose, pumps)) == {"p1"}


def test_all_labels_have_to_fit() -> None:
    pumps = pump_list(
        [online("p1", zone="a"), online("p2", zone="a", rack="1")], {"zone": "a", "rack": "1"}
    )
    assert [pump.node for pump in pumps.near] == ["p2"]


def test_what_was_tried_is_not_taken_again_while_another_is_left() -> None:
    pumps = pump_list(online(f"p{n}") for n in range(4))
    for strategy in ("range", "hash", "score"):
        choose = make_strategy(strategy)
        for start_ts in range(50):
            tried: list[str] = []
            for attempt in range(4):
                tried.append(choose(pumps.near, start_ts, attempt, tried).node)
            assert sorted(tried) == ["p0", "p1", "p2", "p3"]


def test_an_unknown_strategy_is_named_with_those_that_are_known() -> None:
    with pytest.raises(BadInput, match=r"'rnage'.*range, hash, score"):
        make_strategy("rnage")
