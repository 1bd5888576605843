"""What a copy whose rows may be ahead of the checkpoint can't hold."""

from __future__ import annotations

import pytest

from tidelog.errors import Refused, Unavailable
from tidelog.schema.structure import TableStructure
from tidelog_backfill.snapshot.plan import CopiedTable
from tidelog_backfill.snapshot.refusals import refuse_changed, refuse_keyless, refuse_ordered


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


def test_tables_that_changed_while_the_copy_began() -> None:
    a, b = _table("a", "id"), _table("b", "id")
    refuse_changed([a, b], [b, a])
    with pytest.raises(Unavailable, match=r"began: d\.a, d\.c \("):
        refuse_changed([a, b], [_table("a", "x"), b, _table("c")])
