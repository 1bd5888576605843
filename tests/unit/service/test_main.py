"""What a service does before it is built: its help, and what stands in its way."""

from __future__ import annotations

import asyncio
import ctypes
import functools
import gc
import os
import weakref
from pathlib import Path

import pytest

from tests.conditions import until
from tests.cycles import left_in_cycles
from tidelog import leftovers, logs
from tidelog.config import ServiceConfig
from tidelog.errors import EXIT_OK, ConfigError, DirectoryLocked, exit_code
from tidelog.health import HTTP_FILE
from tidelog.http_admin import HttpAdmin
from tidelog.ports import Ports
from tidelog.real.ports import no_downstream
from tidelog.service import Runner, main
from tidelog.supervisor import Supervisor


def never(_: ServiceConfig, __: Ports) -> Supervisor:
    raise AssertionError("it was built")


@pytest.fixture(autouse=True)
def nobodys_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests' own stay as they are set up."""
    monkeypatch.setattr(logs, "configure", lambda *_, **__: None)


def ended(*arguments: str) -> object:
    with pytest.raises(SystemExit) as end:
        main("pump", ServiceConfig, never, argv=arguments, environ={})
    return end.value.code


def test_help_is_no_failure(capsys: pytest.CaptureFixture[str]) -> None:
    assert ended("--help") == EXIT_OK
    assert "--nats-url" in capsys.readouterr().out


def test_a_key_that_is_none_ends_it_with_the_table_s_code(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert ended("--nats-ulr", "x") == exit_code(ConfigError(""))
    said = capsys.readouterr().err
    assert "tidelog-pump: unknown key" in said
    assert "nats-url" in said


def test_a_second_process_in_a_directory_is_refused_and_leaves_the_first_one_s_address(
    tmp_path: Path,
) -> None:
    """The first one waits for NATS, and says so to whoever asks at its address."""
    nowhere = ServiceConfig(nats_url="nats://127.0.0.1:1", data_dir=str(tmp_path))

    async def run() -> None:
        first, second = (Runner("pump", nowhere, never, no_downstream, None) for _ in range(2))
        running = asyncio.create_task(first.run())
        try:
            await until((tmp_path / HTTP_FILE).exists)
            addr = (tmp_path / HTTP_FILE).read_text()
            with pytest.raises(DirectoryLocked, match=r"process\.lock is locked by process \d+ on"):
                await asyncio.wait_for(second.run(), 20)
            assert (tmp_path / HTTP_FILE).read_text() == addr
            assert first.status()["why"] == "waiting for NATS"
            assert not running.done()
        finally:
            running.cancel()
            await asyncio.wait([running])

    asyncio.run(run())


class Loop:
    """Refers to itself: no count of references lets go of it."""

    def __init__(self) -> None:
        self.itself = self


def is_gone(left: weakref.ref[Loop]) -> bool:
    return left() is None


class LetsGo(Runner):
    """Is done when what it let go of is gone, twice."""

    async def _run(self, admin: HttpAdmin) -> None:
        for _ in range(2):
            await until(functools.partial(is_gone, weakref.ref(Loop())))


def test_a_service_keeps_no_cycles_however_few_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "SWEEP_S", 0.01)
    gc.disable()
    try:
        asyncio.run(LetsGo("pump", ServiceConfig(), never, no_downstream, None).run())
    finally:
        gc.enable()


def rss_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


class Bursts(Runner):
    """Is done when most of what a burst took is the system's again. Some of it stays in use, here
    and there, so that no end of the heap is free by itself."""

    async def _run(self, admin: HttpAdmin) -> None:
        burst = [bytes(16_000) for _ in range(5000)]
        most = rss_mib()
        self.kept = burst[::50]
        del burst
        await until(lambda: rss_mib() < most - 40)


@pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="only glibc keeps it and can give it back"
)
def test_a_service_gives_back_what_a_burst_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "SWEEP_S", 0.01)
    asyncio.run(Bursts("pump", ServiceConfig(), never, no_downstream, None).run())


def test_who_asks_for_the_status_leaves_nothing_behind() -> None:
    """`tidelog up` and probes ask all the time."""

    async def asked() -> None:
        runner = Runner("pump", ServiceConfig(), never, no_downstream, None)
        with left_in_cycles() as left:
            for _ in range(3):
                assert runner.status()["why"] == "waiting for NATS"
        assert not left, left

    asyncio.run(asked())
