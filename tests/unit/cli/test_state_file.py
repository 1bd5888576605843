"""Which topology, and which of its feeds, a command is about."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidelog_cli import state_file
from tidelog_cli.state_file import TopologyState


@pytest.mark.parametrize(("asked", "found"), [("", "orders"), ("audit", "audit")])
def test_a_feed_that_is_named_goes_before_the_topology_s_own(
    tmp_path: Path, asked: str, found: str
) -> None:
    """It was ignored without a word: `tail --feed audit --dir DIR` showed another feed."""
    state_file.write(tmp_path, TopologyState("nats://here", "c", "orders"))
    assert state_file.find(tmp_path, "", "default", asked).feed == found


def test_by_a_url_alone_it_is_main() -> None:
    assert state_file.find(None, "nats://here", "c", "").feed == "main"


def test_variables_say_where_if_no_flag_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDELOG_NATS_URL", "nats://there")
    monkeypatch.setenv("TIDELOG_CLUSTER", "far")
    found = state_file.find(None, "", "default", "")
    assert (found.nats, found.cluster) == ("nats://there", "far")
    assert state_file.find(None, "nats://here", "c", "").cluster == "c"
    state_file.write(tmp_path, TopologyState("nats://kept", "mine", "main"))
    assert state_file.find(tmp_path, "", "default", "").nats == "nats://kept"
