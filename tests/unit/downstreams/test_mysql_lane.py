"""A lane's answers to what a server says, without a server."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tidelog.downstream import Checkpoint, RowRefused, Work
from tidelog.downstreams.checkpoint_table import CheckpointTable
from tidelog.downstreams.divergence import Divergences
from tidelog.downstreams.failures import TOO_MUCH_AT_ONCE
from tidelog.downstreams.mysql_lane import MysqlLane, Writer
from tidelog.downstreams.mysql_session import MysqlSession, StatementRefused
from tidelog.errors import Stopped


class Session:
    """Takes everything but what `refuses` with this number."""

    max_packet = 1 << 24
    where = "the downstream"

    def __init__(self, refuses: bytes = b"", code: int = 0) -> None:
        self.refuses, self.code = refuses, code
        self.sent: list[bytes] = []
        self.closed = False

    async def run_all(self, statements: Sequence[bytes]) -> list[int]:
        for sql in statements:
            if self.code and sql.startswith(self.refuses):
                raise StatementRefused(self.code, "no", sql.decode())
            self.sent.append(sql)
        return [1] * len(statements)

    def discard(self) -> None:
        self.closed = True


def lane(session: Session) -> MysqlLane:
    writer = Writer(CheckpointTable("f"), 0)
    return MysqlLane(
        cast(MysqlSession, session),
        cast(Any, SimpleNamespace()),
        writer,
        Divergences(),
        lambda checkpoint: None,
    )


@pytest.mark.parametrize("code", TOO_MUCH_AT_ONCE)
def test_a_transaction_that_is_refused_for_its_size_is_no_rows_fault(code: int) -> None:
    """Of rows that were blamed for it each one behind the limit would be left out."""
    with pytest.raises(Stopped, match=r"can't hold a change.*txn-batch") as caught:
        asyncio.run(lane(Session(b"COMMIT", code)).apply(Work([], checkpoint=Checkpoint(7))))
    assert not isinstance(caught.value, RowRefused)
    with pytest.raises(RowRefused):
        asyncio.run(lane(Session(b"COMMIT", 1062)).apply(Work([], checkpoint=Checkpoint(7))))
