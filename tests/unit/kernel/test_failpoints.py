"""Named places where a test makes a process fail: what arms them, and when they fire."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidelog import failpoints
from tidelog.errors import ConfigError, IoFailed, Unavailable


@pytest.fixture(autouse=True)
def disarmed() -> Iterator[None]:
    failpoints.disarm_all()
    yield
    failpoints.disarm_all()


def test_nothing_is_counted_while_nothing_is_armed() -> None:
    failpoints.hit("pump.a")
    assert failpoints.hits == {}


def test_raise_fires_from_its_hit_on_and_says_so(capfd: pytest.CaptureFixture[str]) -> None:
    failpoints.arm_from_text("pump.a=raise@3;client.b=raise")
    for _ in range(2):
        failpoints.hit("pump.a")
    for _ in range(2):
        with pytest.raises(IoFailed, match=r"failpoint pump\.a"):
            failpoints.hit("pump.a")
    assert failpoints.hits == {"pump.a": 4}
    assert capfd.readouterr().err.splitlines() == [failpoints.told("pump.a", "raise")] * 2
    # A client has no disk: its calls fail as the network does.
    with pytest.raises(Unavailable, match=r"failpoint client\.b"):
        failpoints.hit("client.b")


def test_kill_is_the_end_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: sent.append((pid, number)))
    failpoints.arm_from_text("pump.a=kill@2")
    failpoints.hit("pump.a")
    assert sent == []
    failpoints.hit("pump.a")
    assert sent == [(os.getpid(), signal.SIGKILL)]


def test_stall_stands_still_at_that_hit_only(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    stood: list[float] = []

    class Still(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            stood.append(timeout or 0.0)
            return False

    monkeypatch.setattr(threading, "Event", Still)
    failpoints.arm_from_text("pump.a=stall@2")
    for _ in range(4):
        failpoints.hit("pump.a")
    assert stood == [failpoints.STALL_S]
    assert capfd.readouterr().err.splitlines() == [failpoints.told("pump.a", "stall")]


def test_a_place_is_stalled_while_its_file_is_there(tmp_path: Path) -> None:
    file = tmp_path / "stall"
    failpoints.arm_from_text(f"pump.a=stall:{file}")
    assert not failpoints.stalled("pump.a")
    file.touch()
    assert failpoints.stalled("pump.a")
    assert not failpoints.stalled("pump.b")
    file.unlink()
    assert not failpoints.stalled("pump.a")


@pytest.mark.parametrize("text", ["pump.a", "pump.a=explode", "pump.a=kill@soon"])
def test_what_arms_nothing_is_a_matter_of_the_configuration(text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        failpoints.arm_from_text(text)
    assert text in refused.value.message
    assert "NAME=kill@N" in refused.value.hint
