"""`tidelog feed create`, list and show on a topology that runs."""

from __future__ import annotations

import json
from pathlib import Path

from tests.topology import up
from tidelog.errors import EXIT_FAILED, EXIT_USAGE


def test_a_feed_is_created_once_and_shown(tmp_path: Path) -> None:
    with up(tmp_path / "top", f"sqlite:///{tmp_path / 'down.db'}") as running:
        main = json.loads(running.command("feed", "show", "main", "--json").stdout)
        assert (main["name"], main["initial_commit_ts"], main["begun"]) == ("main", 0, True)
        made = running.command("feed", "create", "second", "--initial-commit-ts", "-1", "--json")
        assert made.returncode == 0, made.stderr
        second = json.loads(made.stdout)
        assert second["initial_commit_ts"] > 0
        assert not second["begun"]
        again = running.command("feed", "create", "second")
        assert again.returncode == EXIT_FAILED
        assert "feed 'second' exists" in again.stderr
        missing = running.command("feed", "create", "second", "--if-missing")
        assert (missing.returncode, missing.stderr.strip()) == (0, "feed second is there")
        listed = running.command("feed", "list", "--json").stdout.splitlines()
        assert [json.loads(line) for line in listed] == [main, second]
        assert "waits for its Drainer" in running.command("feed", "show", "second").stdout
        assert running.command("feed", "show", "third").returncode == EXIT_USAGE
        assert running.command("feed", "create", "No Name").returncode == EXIT_USAGE
        forgotten = running.command("feed", "forget", "second", "--yes")
        assert forgotten.returncode == 0, forgotten.stderr
        assert running.command("feed", "show", "second").returncode == EXIT_USAGE
