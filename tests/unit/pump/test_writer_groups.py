"""How the writer splits what waits into groups."""

from __future__ import annotations

import pytest

from tidelog.actor import Reply
from tidelog_pump.write.writer import GROUP_RECORDS, Append, Outcome, SetState, group_records


def append(count: int) -> Append:
    reply: Reply[list[Outcome]] = Reply(lambda _outcomes, _error: None, {})
    return Append(0, [b""] * count, reply)


@pytest.mark.parametrize(
    ("waiting", "most"),
    [
        ([], GROUP_RECORDS),
        ([1] * 64, GROUP_RECORDS),
        ([GROUP_RECORDS] * 2, GROUP_RECORDS),
        ([500] * 4, 1000),
        ([1] * 1023, 512),
    ],
)
def test_a_group_is_half_of_what_waits_unless_little_waits(waiting: list[int], most: int) -> None:
    batch = [append(count) for count in waiting]
    assert group_records([SetState("online"), *batch]) == most
