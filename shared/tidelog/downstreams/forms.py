"""Where a downstream's column tells values apart otherwise than the upstream's: by its collation,
or because it holds less of them. Pure.

A table that Tidelog made differs only in collations that the server lacks; one made by hand may in
anything. Two rows that are equal downstream alone must still go through one lane.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from tidelog.schema.structure import ColumnStructure, KeyPart, TableStructure

_EXACT = frozenset(("enum", "set"))
"""Elements, whatever their collation."""


class Form(msgspec.Struct, frozen=True):
    """A downstream column. `collation` is empty for what is no text; `length` in characters, of
    bytes in bytes; `scale` the fraction digits of numbers and times."""

    type: str
    collation: str = ""
    length: int = 0
    scale: int = 0
    unsigned: bool = False


def compared(
    structure: TableStructure, keys: Iterable[Iterable[KeyPart]], forms: Mapping[str, Form]
) -> dict[str, str]:
    """`TableRule.collations` of the columns of these keys."""
    names = {part.column for key in keys for part in key}
    found: dict[str, str] = {}
    for column in structure.columns:
        form = forms.get(column.name)
        if form is None or column.name not in names:
            continue
        if not _holds(form, column):
            found[column.name] = ""
        elif form.collation and column.base not in _EXACT and form.collation != column.collation:
            found[column.name] = form.collation
    return found


def _holds(form: Form, column: ColumnStructure) -> bool:
    """Whether it holds every value of the upstream's column as it is."""
    return (
        form.type == column.base
        and form.unsigned == column.unsigned
        and form.scale >= column.scale
        and (not form.length or form.length >= column.length)
    )
