"""An Applier that is killed, and whose MariaDB is, leaves every row as its upstream has it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.integration.applier.kill_history import History, Row
from tests.integration.applier.kill_rig import DATABASE, Rig
from tests.servers import nats_server
from tests.wrong import Wrong

KILLS, DATABASE_KILLS, OUTAGES = 3, 1, 1


@pytest.mark.timeout(400)
def test_equal_and_nothing_twice_over_kills(tmp_path: Path) -> None:
    with nats_server(tmp_path) as nats:
        rig = Rig(
            nats, tmp_path, kills=KILLS, seed=5, database_kills=DATABASE_KILLS, outages=OUTAGES
        )
        asyncio.run(rig.run())
    print(rig.summary())
    assert rig.kills[DATABASE] == DATABASE_KILLS + OUTAGES
    assert rig.kills.total() == KILLS + 2 * DATABASE_KILLS + OUTAGES + 1
    assert len(rig.outages_s) == OUTAGES
    assert rig.checked["exactly"]
    assert rig.checked["loosely"]
    assert rig.load.ddls


def test_an_outage_is_one_case(tmp_path: Path) -> None:
    rig = Rig(SimpleNamespace(url="nats://none"), tmp_path, kills=0, seed=1)  # type: ignore[arg-type]
    rig.load = SimpleNamespace(transactions=9, large=0, ddls=0, histories=[])  # type: ignore[assignment]
    rig.kills[DATABASE] += 2
    rig.outages_s += [1.0, 2.0]
    last = rig.summary().splitlines()[-1]
    assert last.startswith("kills of the Applier: 2 cases, ")


def keyed() -> History:
    """Of key 1: 10 is settled; then 11, then nothing. Of key 2: 20 comes later."""
    history = History("t", lambda row: row[0])
    history.add(1, None, (1, 10))
    history.add(3, (1, 10), (1, 11))
    history.add(4, (1, 11), None)
    history.add(5, None, (2, 20))
    history.settle(2)
    return history


def bag() -> History:
    history = History("bag", None)
    for commit_ts, value in enumerate((7, 7, 8), 1):
        history.add(commit_ts, None, (value,))
    history.settle(1)
    return history


@pytest.mark.parametrize(
    ("history", "rows"),
    [
        (keyed, [(1, 10)]),
        (keyed, [(1, 11), (2, 20)]),
        (keyed, []),
        (bag, [(7,)]),
        (bag, [(7,), (7,)]),
        (bag, [(7,), (8,), (7,)]),
    ],
)
def test_what_may_be_there_beyond_a_checkpoint(
    history: Callable[[], History], rows: list[Row]
) -> None:
    history().check(rows, exactly=False)


@pytest.mark.parametrize(
    ("history", "rows"),
    [
        (keyed, [(1, 9)]),
        (keyed, [(1, 10), (3, 30)]),
        (keyed, [(1, 10), (1, 11)]),
        (keyed, [(1, 10), (1, 10)]),
        (bag, []),
        (bag, [(7,), (8,)]),
        (bag, [(7,), (7,), (8,), (8,)]),
    ],
)
def test_what_must_not(history: Callable[[], History], rows: list[Row]) -> None:
    with pytest.raises(Wrong):
        history().check(rows, exactly=False)


def test_a_consistent_checkpoint_allows_nothing_else() -> None:
    keyed().check([(1, 10)], exactly=True)
    with pytest.raises(Wrong, match="2 too much"):
        keyed().check([(1, 11), (2, 20)], exactly=True)
    late = keyed()
    late.settle(5)
    with pytest.raises(Wrong, match="1 rows are missing"):
        late.check([], exactly=True)
