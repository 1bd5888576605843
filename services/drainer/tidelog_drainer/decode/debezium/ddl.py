"""A DDL as Debezium's schema change event. Pure.

Source: Debezium's MySQL connector, "Schema change topic"; the numbers are java.sql.Types'.
"""

from __future__ import annotations

from tidelog.changes import DdlMessage, DdlTable
from tidelog.schema.structure import ColumnStructure, TableStructure

_OTHER = 1111
_JDBC = {
    "bit": -7,
    "tinyint": -6,
    "bigint": -5,
    "varbinary": -3,
    "binary": -2,
    "char": 1,
    "enum": 1,
    "set": 1,
    "decimal": 3,
    "int": 4,
    "mediumint": 4,
    "year": 4,
    "smallint": 5,
    "float": 7,
    "double": 8,
    "varchar": 12,
    "tinytext": 12,
    "text": 12,
    "mediumtext": 12,
    "longtext": 12,
    "date": 91,
    "time": 92,
    "datetime": 93,
    "tinyblob": 2004,
    "blob": 2004,
    "mediumblob": 2004,
    "longblob": 2004,
    "timestamp": 2014,
}


def schema_change(message: DdlMessage, source: dict[str, object], ts_ms: int) -> dict[str, object]:
    return {
        "source": source,
        "ts_ms": ts_ms,
        "databaseName": message.db,
        "schemaName": None,
        "ddl": message.query,
        "tableChanges": [_change(table) for table in message.tables],
    }


def _change(table: DdlTable) -> dict[str, object]:
    was = _id(table.db_before, table.before) if table.before is not None else None
    if table.after is None:
        return {"type": "DROP", "id": was, "table": None}
    now = _id(table.db_after, table.after)
    kind = "CREATE" if was is None else "ALTER"
    found: dict[str, object] = {"type": kind, "id": now, "table": _table(table.after)}
    return found if was in (None, now) else found | {"previousId": was}


def _id(db: str, table: TableStructure) -> str:
    return f'"{db}"."{table.name}"'


def _table(table: TableStructure) -> dict[str, object]:
    primary = next((key.columns for key in table.keys if key.primary), ())
    return {
        "defaultCharsetName": table.charset or None,
        "primaryKeyColumnNames": list(primary),
        "columns": [_column(column, at) for at, column in enumerate(table.columns, 1)],
        "comment": table.comment or None,
    }


def _column(column: ColumnStructure, position: int) -> dict[str, object]:
    type_name = column.base.upper() + (" UNSIGNED" if column.unsigned else "")
    return {
        "name": column.name,
        "jdbcType": _JDBC.get(column.base, _OTHER),
        "nativeType": None,
        "typeName": type_name,
        "typeExpression": type_name,
        "charsetName": column.charset or None,
        "length": column.length if column.length >= 0 else None,
        "scale": column.scale if column.scale >= 0 else None,
        "position": position,
        "optional": column.nullable,
        "autoIncremented": column.auto_increment,
        "generated": bool(column.generated),
        "comment": column.comment or None,
        "hasDefaultValue": column.default is not None or column.nullable,
        "defaultValueExpression": column.default,
        "enumValues": ["'" + elem.replace("'", "''") + "'" for elem in column.elems],
    }
