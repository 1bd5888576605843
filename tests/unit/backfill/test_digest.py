"""What makes a step another one, of which no part is done."""

from __future__ import annotations

import msgspec
import pytest

from tests.unit.backfill.logs import Batch, Log
from tidelog.decode.config import DecodeConfig
from tidelog_backfill.files.chunk import Facts
from tidelog_backfill.replay.planning import plan
from tidelog_backfill.replay.routing import routing
from tidelog_backfill.replay.step import digest
from tidelog_backfill.replay.wanted import Wanted

(WHOLE,) = Log([Batch(1, 2), Batch(2, 1)]).facts()


def digests(facts: Facts, config: DecodeConfig | None = None, **wanted: object) -> list[str]:
    chosen = msgspec.convert({"on_corrupt": "skip", **wanted}, Wanted)
    made = plan([facts], chosen, config=config or DecodeConfig())
    return [digest(segment, routing([], 2)) for segment in made.segments]


def test_the_same_log_is_the_same_step() -> None:
    assert digests(WHOLE) == digests(msgspec.structs.replace(WHOLE))
    # A log without damage is, whatever is said about damage.
    assert digests(WHOLE) == digests(WHOLE, on_corrupt="stop")


@pytest.mark.parametrize("change", [{"skipped": 5}, {"rows": 2}, {"size": 29}, {"open": 1}])
def test_a_file_that_was_mended_is_another_log(change: dict[str, int]) -> None:
    assert digests(WHOLE) != digests(msgspec.structs.replace(WHOLE, **change))


def test_what_is_left_out_makes_another_step() -> None:
    ignoring = DecodeConfig(ignore_txn_commit_ts=(2,))
    assert digests(WHOLE) != digests(WHOLE, ignoring)
    assert digests(WHOLE) != digests(msgspec.structs.replace(WHOLE, structures=[]))
    assert digests(WHOLE) != digests(WHOLE, tables=("shop.*",))
