"""Memory while nearly everything is filtered (T2): a share of what `filtered.py` does whole."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.acceptance.filtered import (
    DELETES,
    ENVIRONMENT,
    FLAT_MIB,
    dropped,
    mostly_filtered,
    topology,
)

TXNS = 1000


def test_memory_does_not_grow_with_filtered_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    with topology(tmp_path) as running:
        first, then = mostly_filtered(running, TXNS)
        assert then.now - first.now < FLAT_MIB
        assert dropped(running)["event_filter"] == TXNS * DELETES
    with closing(sqlite3.connect(tmp_path / "down.db")) as db:
        assert db.execute('SELECT COUNT(*) FROM "app.t1"').fetchone() == (TXNS,)
