"""What a Drainer's heartbeat says of its actors."""

from __future__ import annotations

from typing import Any

from tidelog_drainer.service import complaints


def test_nothing_to_complain_of() -> None:
    assert complaints({}) == {}
    quiet: dict[str, dict[str, Any]] = {
        "publisher": {"error": "", "waiting": ""},
        "collector": {"error": "", "sources": {}},
    }
    assert complaints(quiet) == {}


def test_each_is_named() -> None:
    sources = {"p1": {"resolved_ts": 1}, "p2": {"error": "purged (rewind)"}}
    said = complaints(
        {
            "publisher": {"error": "", "waiting": "the DDL history"},
            "collector": {"error": "the merge stands still", "sources": sources},
        }
    )
    assert said == {
        "error": "the merge stands still",
        "waiting": "the DDL history",
        "p2": "purged (rewind)",
    }
    both = complaints({"publisher": {"error": "a stop"}, "collector": {"error": "another"}})
    assert both == {"error": "a stop"}
