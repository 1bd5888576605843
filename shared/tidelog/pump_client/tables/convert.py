"""One value for one column: checked, and in the form that the row codec writes. Pure.

MySQL in its lax mode would store the nearest value it can; here whatever would not be stored as it
was given is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tidelog.pump_client.tables import numbers, texts, times
from tidelog.pump_client.tables.errors import NotNull, WrongType
from tidelog.rows.values import (
    INT_TYPES,
    STRING_TYPES,
    T_BIT,
    T_DATE,
    T_DATETIME,
    T_DECIMAL,
    T_DOUBLE,
    T_DURATION,
    T_ENUM,
    T_FLOAT,
    T_JSON,
    T_NEWDATE,
    T_SET,
    T_TIMESTAMP,
    T_YEAR,
    Value,
)
from tidelog.schema.model import ColumnInfo

_BY_TYPE: Final[dict[int, Callable[[ColumnInfo, object], Value]]] = {
    **dict.fromkeys(INT_TYPES, numbers.integer),
    T_YEAR: numbers.year,
    T_BIT: numbers.bits,
    T_FLOAT: numbers.real,
    T_DOUBLE: numbers.real,
    T_DECIMAL: numbers.decimal,
    T_DATE: times.day,
    T_NEWDATE: times.day,
    T_DATETIME: times.moment,
    T_TIMESTAMP: times.moment,
    T_DURATION: times.duration,
    T_ENUM: texts.element,
    T_SET: texts.elements,
    T_JSON: texts.json,
}


def convert(column: ColumnInfo, value: object) -> Value:
    """Raises a BadValue that names the column and what is wrong."""
    if value is None:
        if column.not_null:
            raise NotNull(column.name.text, "NULL, where the column is NOT NULL")
        return None
    if column.type.Tp in STRING_TYPES:
        is_binary = column.type.Charset == "binary"
        return texts.octets(column, value) if is_binary else texts.text(column, value)
    how = _BY_TYPE.get(column.type.Tp)
    if how is None:
        raise WrongType(column.name.text, f"columns of type {column.type.Tp} can't be written")
    return how(column, value)
