"""The rigs' comparison with a downstream sees what is not there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.integration.drainer.ledger import Ledger, Written
from tests.integration.drainer.tables import DownstreamTables
from tests.servers import MariaDb
from tests.wrong import Wrong


class Told(DownstreamTables):
    """A downstream that says these columns and rows of `own0`; its other tables are empty."""

    def __init__(self, ledger: Ledger, *own: dict[str, Any]) -> None:
        super().__init__(MariaDb(Path(), ()), ledger)
        self._own = own

    def rows(self, sql: str) -> list[dict[str, Any]]:
        own = self._own if sql.endswith(".own0") else ()
        if sql.startswith("SHOW"):
            return [{"Field": name} for name in (own[0] if own else ())]
        return list(own)


def ledger(*rows: dict[str, Any]) -> Ledger:
    found = Ledger()
    for at, row in enumerate(rows, 1):
        found.commit(at, Written(0, {"own0": [("", None, row)]}))
    return found


def test_equal_rows_pass_and_what_was_added_is_null_in_older_ones() -> None:
    older, newer = {"id": 1, "body": "x"}, {"id": 2, "body": "y", "c7": 42}
    Told(ledger(older, newer), {**older, "c7": None}, newer).compare(2)


def test_a_column_that_is_not_there_is_missed_with_its_values() -> None:
    row = {"id": 1, "body": "x", "c7": 42}
    with pytest.raises(Wrong, match="no column c7"):
        Told(ledger(row), {"id": 1, "body": "x"}).compare(1)


def test_a_row_that_is_not_there_is_missed() -> None:
    with pytest.raises(Wrong, match="1 rows missing"):
        Told(
            ledger({"id": 1, "body": "x"}, {"id": 2, "body": "y"}), {"id": 1, "body": "x"}
        ).compare(2)
