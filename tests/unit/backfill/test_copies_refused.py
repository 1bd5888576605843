"""What a copy whose rows may be ahead of the checkpoint can't hold."""

from __future__ import annotations

import pytest

from tidelog.errors import Refused
from tidelog.schema.structure import TableStructure
from tidelog_backfill.snapshot.plan import CopiedTable
from tidelog_backfill.snapshot.run import refuse_keyless, refuse_ordered


def _table(name: str, *key: str, ordered: bool = False) -> CopiedTable:
    return CopiedTable("d", TableStructure(name, 0, key_columns=key), ordered=ordered)


def test_tables_without_a_key() -> None:
    refuse_keyless([_table("a", "id")])
    with pytest.raises(Refused, match=r"unique key: d\.b, d\.c"):
        refuse_keyless([_table("a", "id"), _table("b"), _table("c")])


def test_tables_that_are_written_in_order() -> None:
    refuse_ordered([_table("a", "id")])
    with pytest.raises(Refused, match=r"in the way of d\.b"):
        refuse_ordered([_table("a", "id"), _table("b", "id", ordered=True)])
