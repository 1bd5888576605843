"""`tidelog jobs`: what is asked reaches the cluster and the service that were named."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest
import typer
from typer.testing import CliRunner

from tidelog.bulk.control import Jobs, JobStatus
from tidelog.errors import DeadlineExceeded, NoResponders
from tidelog.messages import encode
from tidelog.real.bus import NatsBus
from tidelog_cli import bulk, terminal
from tidelog_cli.app import app
from tidelog_cli.commands import bulk_options, jobs

STATUS = JobStatus("j1", "replay", "cancelled", {})


class Cluster:
    """Instead of a topology: what a command named, and what it asked there."""

    def __init__(self) -> None:
        self.named: tuple[Path | None, str, str] | None = None
        self.subjects: list[str] = []

    def on_cluster(
        self,
        directory: Path | None,
        nats: str,
        cluster: str,
        work: Callable[[NatsBus, str], Awaitable[None]],
    ) -> None:
        self.named = directory, nats, cluster

        async def done() -> None:
            await work(cast(NatsBus, self), cluster)

        asyncio.run(done())

    async def request(self, subject: str, body: bytes, *, timeout_s: float) -> Any:
        self.subjects.append(subject)
        answer = STATUS if subject.endswith("cancel") else Jobs([STATUS])
        return type("Answer", (), {"data": encode(answer)})


OPTIONS = ["--dir", "/there", "--cluster", "c", "--node", "n", "--json"]


@pytest.mark.parametrize("command", [["j1"], ["show", "j1"], ["cancel", "j1"], []])
def test_options_of_the_group_are_those_of_its_commands(
    command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster()
    monkeypatch.setattr(jobs, "on_cluster", cluster.on_cluster)
    result = CliRunner().invoke(app, ["jobs", *OPTIONS, *command], catch_exceptions=False)
    assert result.exit_code == 0
    assert cluster.named == (Path("/there"), "", "c")
    verb = "cancel" if "cancel" in command else "status"
    assert cluster.subjects == [f"tidelog.c.backfill.n.{verb}"]
    assert '"id":"j1"' in result.stdout


def test_the_nearer_option_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    monkeypatch.setattr(jobs, "on_cluster", cluster.on_cluster)
    args = ["jobs", *OPTIONS, "cancel", "--cluster", "other", "j1"]
    assert CliRunner().invoke(app, args, catch_exceptions=False).exit_code == 0
    assert cluster.named == (Path("/there"), "", "other")


class Job:
    """A backfill service's answers about one job, in order; an error is raised. The last stays."""

    def __init__(self, *answers: JobStatus | Exception) -> None:
        self._answers = list(answers)

    async def request(self, subject: str, body: bytes, *, timeout_s: float) -> Any:
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return type("Answer", (), {"data": encode(Jobs([answer]))})


RUNNING = JobStatus("j1", "replay", "running", {})


def test_a_job_is_followed_over_a_restart_of_its_service(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "POLL_S", 0)
    told: list[JobStatus] = []
    job = Job(RUNNING, NoResponders("nobody"), DeadlineExceeded("late"), STATUS)
    service = bulk.Service(cast(NatsBus, job), "c")
    assert asyncio.run(service.follow("j1", told.append)) == STATUS
    assert [(one.state, one.error) for one in told] == [
        ("running", ""),
        ("queued", bulk.SILENT),
        ("queued", bulk.SILENT),
        ("cancelled", ""),
    ]


def test_left_by_ctrl_c_a_job_goes_on_and_it_is_said(capfd: pytest.CaptureFixture[str]) -> None:
    """The signal comes with the first answer."""

    class Interrupting(Job):
        async def request(self, subject: str, body: bytes, *, timeout_s: float) -> Any:
            signal.raise_signal(signal.SIGINT)
            return await super().request(subject, body, timeout_s=timeout_s)

    async def work() -> int:
        service = bulk.Service(cast(NatsBus, Interrupting(RUNNING)), "c")
        await bulk_options.followed(service, "j1")
        return 0

    with pytest.raises(typer.Exit) as ended:
        terminal.run(work())
    assert ended.value.exit_code == 130
    assert "job j1 goes on: `tidelog jobs j1` shows it" in capfd.readouterr().err
