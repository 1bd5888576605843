"""A relay's directory with everything else gone."""

from __future__ import annotations

import pytest

from tests.unit.pump.driven import Machine, drive
from tests.unit.relay.relay_rig import (
    CLUSTER_ID,
    FEED,
    STRUCTURES,
    bodies_of,
    named,
    opened,
    piece,
    rows,
    whole,
)
from tidelog.errors import Corrupt, NotFound
from tidelog.relay import RelayGap, RelayLog
from tidelog.relay.survey import Survey, survey


def fill(log: RelayLog, begin: int, count: int) -> None:
    for ts in range(begin, begin + count):
        drive(log.append([whole(ts, ts - 1, rows(ts, 500, ts % 3))], STRUCTURES))


def surveyed(machine: Machine) -> Survey:
    return drive(survey(machine.mount(), "relay"))


async def told(found: Survey, after: int) -> list[int]:
    """commit_ts of what is read; each body's table has its structure."""
    batches = [batch async for batch in found.batches(after)]
    for batch in batches:
        for key in named(tuple(await bodies_of(batch))):
            assert batch.structures[key] == STRUCTURES[key]
    return [batch.commit_ts for batch in batches]


def test_it_says_whose_it_is_and_what_it_covers() -> None:
    machine = Machine()
    log = opened(machine, 100)
    fill(log, 101, 12)
    drive(log.append([piece(0, rows(113, 900)), whole(113, 112, pieces=1)], STRUCTURES))
    drive(log.append([piece(0, rows(114, 900))], STRUCTURES))
    before = machine.disk.image()
    found = surveyed(machine)
    assert (found.feed, found.cluster_id) == (FEED, CLUSTER_ID)
    assert (found.begins, found.first, found.last) == (100, 101, 113)
    assert not found.missing(100)
    assert not found.missing(113)
    assert found.missing(98) == [(98, 100)]
    assert drive(told(found, 100)) == [*range(101, 114)]
    assert drive(told(found, 111)) == [112, 113]
    assert machine.disk.image() == before


def test_what_is_lost_in_between_is_a_gap_unless_it_is_applied() -> None:
    machine = Machine()
    fill(opened(machine), 1, 20)
    drive(machine.mount().remove("relay/relay-000001"))
    found = surveyed(machine)
    ((above, upto),) = found.gaps
    assert found.missing(above - 1) == found.missing(above) == [(above, upto)]
    assert found.missing(upto - 1) == [(upto - 1, upto)]
    assert not found.missing(upto)
    with pytest.raises(RelayGap):
        drive(told(found, above))
    assert drive(told(found, upto)) == [*range(upto + 1, 21)]


def test_a_checkpoint_ahead_by_watermarks_leaves_no_gap_that_matters() -> None:
    machine = Machine()
    fill(opened(machine), 1, 3)
    fill(opened(machine, 10), 11, 3)
    found = surveyed(machine)
    assert found.gaps == [(3, 10)]
    assert not found.missing(10)
    assert drive(told(found, 10)) == [11, 12, 13]


def test_a_torn_end_is_none_of_it_and_a_synced_one_is_corrupt() -> None:
    machine = Machine()
    log = opened(machine, max_file_bytes=1 << 20)
    fill(log, 1, 3)
    disk = machine.mount()
    files = {path: disk.read_file(path) for path in ("relay/relay-000000", "relay/synced")}
    torn = files["relay/relay-000000"]
    machine.disk.restore({"relay": None, "relay/relay-000000": torn[:-7]})
    assert surveyed(machine).last == 2
    machine.disk.restore({"relay": None, **files, "relay/relay-000000": torn[:-7]})
    with pytest.raises(Corrupt, match="synced"):
        surveyed(machine)


def test_where_no_relay_is() -> None:
    with pytest.raises(NotFound):
        surveyed(Machine())
