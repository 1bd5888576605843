"""Which topology, and which of its feeds, a command is about."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import pytest

from tests.processes import until
from tidelog.errors import BadInput, DiskFull
from tidelog.real.processes import RealProcesses
from tidelog_cli import state_file, topology
from tidelog_cli.state_file import PumpAt, TopologyState
from tidelog_cli.topology import Options, Topology


@pytest.mark.parametrize(("asked", "found"), [("", "orders"), ("audit", "audit")])
def test_a_feed_that_is_named_goes_before_the_topology_s_own(
    tmp_path: Path, asked: str, found: str
) -> None:
    """It was ignored without a word: `tail --feed audit --dir DIR` showed another feed."""
    state_file.write(tmp_path, TopologyState("nats://here", "c", "orders"))
    assert state_file.find(tmp_path, "", "", asked).feed == found


def test_by_a_url_alone_it_is_main() -> None:
    assert state_file.find(None, "nats://here", "c", "").feed == "main"


def test_variables_say_where_if_no_flag_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDELOG_NATS_URL", "nats://there")
    monkeypatch.setenv("TIDELOG_CLUSTER", "far")
    found = state_file.find(None, "", "", "")
    assert (found.nats, found.cluster) == ("nats://there", "far")
    assert state_file.find(None, "", "c", "").cluster == "c"
    assert state_file.find(None, "nats://here", "c", "").cluster == "c"
    assert state_file.find(None, "nats://here", "", "").cluster == "default"
    state_file.write(tmp_path, TopologyState("nats://kept", "mine", "main"))
    assert state_file.find(tmp_path, "", "", "").nats == "nats://kept"


def test_another_cluster_than_the_topology_s_is_refused(tmp_path: Path) -> None:
    """It was ignored, and what was ordered befell this one."""
    state_file.write(tmp_path, TopologyState("nats://here", "mine", "main"))
    assert state_file.find(tmp_path, "", "mine", "").cluster == "mine"
    with pytest.raises(BadInput, match="is of the cluster mine, not other"):
        state_file.find(tmp_path, "", "other", "")


def refused(_: Path, data: bytes) -> int:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_on_a_full_disk_what_was_written_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    was = TopologyState("nats://here", "c", "main")
    state_file.write(tmp_path, was)
    before = (tmp_path / state_file.NAME).stat()
    monkeypatch.setattr(Path, "write_bytes", refused)
    state_file.write(tmp_path, was)  # the same takes no room
    assert (tmp_path / state_file.NAME).stat().st_ino == before.st_ino
    with pytest.raises(DiskFull, match=r"tidelog.json: No space left"):
        state_file.write(tmp_path, TopologyState("nats://there", "c", "main"))
    assert state_file.read(tmp_path) == was
    assert [path.name for path in tmp_path.iterdir()] == [state_file.NAME]


def test_a_full_disk_ends_no_topology_and_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A child that was started again has another pid: that was the end of all others."""
    monkeypatch.setattr(topology, "LOOK_S", 0.0)
    said: list[str] = []
    up = Topology(Options(tmp_path, "blackhole:"), RealProcesses(), said.append)
    up.save()
    up._pumps_at = [PumpAt("pump-1", "here:1")]
    with monkeypatch.context() as disk:
        disk.setattr(Path, "write_bytes", refused)
        up.save()
        up.save()
    (line,) = said
    assert "No space left" in line
    assert pumps(tmp_path) == []

    async def saved() -> None:
        keeping = asyncio.ensure_future(up._keep_addresses())
        await asyncio.to_thread(until, lambda: pumps(tmp_path) != [], "it is saved", 60)
        keeping.cancel()

    asyncio.run(saved())


def pumps(directory: Path) -> list[PumpAt]:
    state = state_file.read(directory)
    assert state is not None
    return state.pumps


def test_a_topology_that_nobody_would_find_does_not_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was "ready" without its file, and `tidelog demo` ended by an AssertionError."""
    with monkeypatch.context() as disk:
        disk.setattr(Path, "write_bytes", refused)
        with pytest.raises(DiskFull):
            Topology(Options(tmp_path, "blackhole:"), RealProcesses()).save()
    state_file.write(tmp_path, TopologyState("nats://127.0.0.1:1", "c", "main"))
    again = Topology(Options(tmp_path, "blackhole:"), RealProcesses())
    monkeypatch.setattr(Path, "write_bytes", refused)
    again.save()  # of an earlier one the addresses are known
