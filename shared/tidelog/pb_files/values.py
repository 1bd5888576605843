"""What the columns of pb_binlog rows hold. Pure."""

from __future__ import annotations

from tidelog.rows.any_datum import read_datum
from tidelog.rows.values import Value
from tidelog_proto.pb_binlog_pb2 import Column, Event, EventType

_BINARY = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob")
Image = dict[str, "Value | bytes"]


def images(event: Event) -> tuple[Image | None, Image | None]:
    """A row before and after its change. Texts are str if they are UTF-8, else bytes; ENUM, SET and
    BIT are numbers; times, decimals and JSON are texts. Raises Malformed."""
    first: Image = {}
    second: Image = {}
    for data in event.row:
        column = Column.FromString(data)
        first[column.name] = _value(column, column.value)
        if column.HasField("changed_value"):
            second[column.name] = _value(column, column.changed_value)
    if event.tp == EventType.Insert:
        return None, first
    return first, second if event.tp == EventType.Update else None


def _value(column: Column, data: bytes) -> Value | bytes:
    _, raw, _ = read_datum(data, 0)
    if isinstance(raw, bytes) and column.mysql_type not in _BINARY:
        try:
            return raw.decode()
        except UnicodeDecodeError:
            return raw
    return raw
