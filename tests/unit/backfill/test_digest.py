"""What makes a step another one, of which no part is done."""

from __future__ import annotations

import msgspec
import pytest

from tests.unit.backfill.logs import Batch, Log
from tests.unit.backfill.pump_logs import view
from tidelog.decode.config import DecodeConfig
from tidelog_backfill.files.chunk import Facts
from tidelog_backfill.replay.plan import Segment
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


def test_the_order_of_what_has_none_does_not_matter() -> None:
    def of(dropped: dict[int, str]) -> str:
        shown = msgspec.structs.replace(view(0, 30), lacking=frozenset(dropped.values()))
        (span,) = shown.spans
        shown = msgspec.structs.replace(
            shown, spans=[msgspec.structs.replace(span, dropped=dropped)]
        )
        return digest(Segment(1, 30, [], shown, [], {}), routing([], 2))

    assert of({8: "truncated", 7: "system"}) == of({7: "system", 8: "truncated"})
    assert of({8: "truncated"}) != of({7: "truncated"})
