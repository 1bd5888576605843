"""What a Drainer's heartbeat says of its actors."""

from __future__ import annotations

from typing import Any

from tidelog_drainer.service import complaints, counts


def test_nothing_to_complain_of() -> None:
    assert complaints({}) == {}
    quiet: dict[str, dict[str, Any]] = {
        "publisher": {"error": "", "waiting": ""},
        "collector": {"error": "", "sources": {}},
    }
    assert complaints(quiet) == {}


def test_each_is_named() -> None:
    failing = {"error": "no responders", "since": "2026-11-18 11:06:40", "holds_merge": True}
    ahead = {"error": "purged (rewind)", "since": "2026-11-18 11:06:41", "holds_merge": False}
    sources = {"p1": {"resolved_ts": 1}, "p2": failing, "p3": ahead}
    said = complaints(
        {
            "publisher": {"error": "", "waiting": "the DDL history"},
            "collector": {"error": "the merge stands still", "sources": sources},
        }
    )
    assert said == {
        "error": "the merge stands still",
        "waiting": "the DDL history",
        "p2": "the merge waits for it, in vain since 2026-11-18 11:06:40: no responders",
        "p3": "no answer since 2026-11-18 11:06:41: purged (rewind)",
    }
    both = complaints({"publisher": {"error": "a stop"}, "collector": {"error": "another"}})
    assert both == {"error": "a stop"}


def test_what_was_left_out_is_told_by_reason_whoever_left_it_out() -> None:
    publisher = {"txns": 7, "rows": 9, "dropped": {"filtered": 3, "system": 0}}
    found = counts({"publisher": publisher, "collector": {"duplicates": 2, "left_out_at_pumps": 4}})
    left_out = {"dropped.filtered": 3, "dropped.at_pump": 4}
    assert found == {"txns": 7, "rows": 9, "duplicates": 2} | left_out
