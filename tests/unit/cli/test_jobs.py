"""`tidelog jobs`: what is asked reaches the cluster and the service that were named."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest
from typer.testing import CliRunner

from tidelog.bulk.control import Jobs, JobStatus
from tidelog.messages import encode
from tidelog.real.bus import NatsBus
from tidelog_cli.app import app
from tidelog_cli.commands import jobs

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
