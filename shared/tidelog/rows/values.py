"""The forms that column values have outside the codecs (design section 5, "Values")."""

from __future__ import annotations

from typing import TypeAlias

Value: TypeAlias = "bool | int | float | str | list[Value] | dict[str, Value] | None"
"""What JSON can hold. Lists and objects occur in JSON columns only."""

# MySQL's type bytes (FieldType.Tp).
T_TINY = 1
T_SHORT = 2
T_LONG = 3
T_FLOAT = 4
T_DOUBLE = 5
T_TIMESTAMP = 7
T_LONGLONG = 8
T_INT24 = 9
T_DATE = 10
T_DURATION = 11
T_DATETIME = 12
T_YEAR = 13
T_NEWDATE = 14
T_VARCHAR = 15
T_BIT = 16
T_JSON = 245
T_DECIMAL = 246
T_ENUM = 247
T_SET = 248
T_TINY_BLOB = 249
T_MEDIUM_BLOB = 250
T_LONG_BLOB = 251
T_BLOB = 252
T_VAR_STRING = 253
T_STRING = 254

INT_TYPES = frozenset((T_TINY, T_SHORT, T_LONG, T_LONGLONG, T_INT24, T_YEAR))
STRING_TYPES = frozenset(
    (T_VARCHAR, T_VAR_STRING, T_STRING, T_TINY_BLOB, T_BLOB, T_MEDIUM_BLOB, T_LONG_BLOB)
)
TIME_TYPES = frozenset((T_DATE, T_NEWDATE, T_DATETIME, T_TIMESTAMP))
