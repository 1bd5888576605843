"""Ranges of a table's key as SQL conditions. Pure.

Bounds are SQL literals, one per key column, in the order in which the server itself sorts: so a
collation, a PAD SPACE or a zero date needs nobody here to know what it means.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

Bound = tuple[str, ...]
"""A literal per key column."""


class KeyRange(msgspec.Struct, frozen=True):
    """Keys above `after` and up to `upto`; an empty bound is none."""

    after: Bound = ()
    upto: Bound = ()


WHOLE = KeyRange()


def consecutive(bounds: Iterable[Bound]) -> Iterator[KeyRange]:
    """The ranges between rising bounds, and those below the first and above the last of them. Each
    key lies in exactly one."""
    after: Bound = ()
    for bound in bounds:
        yield KeyRange(after, bound)
        after = bound
    yield KeyRange(after, ())


def condition(columns: Sequence[str], within: KeyRange) -> str:
    """True for keys of the range; "" = all are. `columns` are quoted names.

    Servers don't use an index for `(a, b) > (x, y)`, but for its first column once that is compared
    by itself.
    """
    parts: list[str] = []
    if within.after:
        parts.append(_beyond(columns, within.after, ">", inclusive=False))
    if within.upto:
        parts.append(_beyond(columns, within.upto, "<", inclusive=True))
    return " AND ".join(parts)


def _beyond(columns: Sequence[str], bound: Bound, sign: str, *, inclusive: bool) -> str:
    column, literal = columns[0], bound[0]
    if len(bound) == 1:
        return f"{column} {sign}{'=' if inclusive else ''} {literal}"
    rest = _beyond(columns[1:], bound[1:], sign, inclusive=inclusive)
    return (
        f"{column} {sign}= {literal} AND"
        f" ({column} {sign} {literal} OR {column} = {literal} AND {rest})"
    )
