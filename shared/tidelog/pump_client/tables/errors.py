"""Rows and tables that can't be written. All are definite: nothing was written."""

from __future__ import annotations

from tidelog.errors import BadInput
from tidelog.rows.errors import BadValue


class NoSuchTable(BadInput):
    """No table has this name at the newest schema version."""

    default_hint = "write it as db.table; names of databases and tables with dots in back-quotes"


class NotWritable(BadInput):
    """A table whose rows this client can't make."""


class NoSuchColumn(BadValue):
    """The row names a column that the table doesn't have."""


class MissingValue(BadValue):
    """A column without a default has no value, or an image of a row lacks a column."""


class NotNull(BadValue):
    """NULL for a column that takes none."""


class OutOfRange(BadValue):
    """A value that the column's type can't hold: too large, too long, too precise."""


class WrongType(BadValue):
    """A value of a Python type that this column's type is not made from."""


class Generated(BadValue):
    """A value for a generated column: it is computed from the others."""
