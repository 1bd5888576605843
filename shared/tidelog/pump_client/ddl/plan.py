"""A statement and the present schema -> what the statement does to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from tidelog.pump_client.ddl.alter import alter, drop_index, put_index
from tidelog.pump_client.ddl.change import Change, with_columns
from tidelog.pump_client.ddl.columns import definition
from tidelog.pump_client.ddl.errors import DdlRefused
from tidelog.pump_client.ddl.keys import Key, created, index, key
from tidelog.pump_client.ddl.names import database, named, qualified, table_at
from tidelog.pump_client.ddl.parse import Tree, kind, refuse
from tidelog.pump_client.ddl.types import collation
from tidelog.pump_client.tables.catalog import Catalog
from tidelog.rows.values import INT_TYPES, T_YEAR
from tidelog.schema import jobs
from tidelog.schema.model import FLAG_NOT_NULL, FLAG_PRIMARY, ColumnInfo, DBInfo, TableInfo

_DEFAULT: Final = ("utf8mb4", "utf8mb4_bin")
_IGNORED: Final = ("EngineProperty", "AutoIncrementProperty")


def plan(tree: Tree, catalog: Catalog, now: str) -> Change | None:
    """None: IF [NOT] EXISTS says that nothing is to be done. `now`: CURRENT_TIMESTAMP in UTC.

    Ids that the change gives are above the catalog's `next_id`, which is the job's own. Raises
    DdlNotSupported, DdlRefused.
    """
    what = kind(tree), str(tree.args.get("kind") or "").upper()
    if what == ("Create", "TABLE"):
        return _create_table(tree, catalog)
    if what == ("Create", "INDEX"):
        table = tree.this.args["table"]
        return put_index(table_at(catalog, table), created(tree), catalog.next_id + 1)
    if what == ("Drop", "INDEX"):
        return _drop_index(tree, catalog)
    if what == ("Alter", "TABLE"):
        return alter(tree, catalog, now)
    if kind(tree) == "TruncateTable":
        return _truncate(tree, catalog)
    handler = _OTHERS.get(what)
    if handler is None:
        raise refuse(tree)
    return handler(tree, catalog)


def _create_database(tree: Tree, catalog: Catalog) -> Change | None:
    name = tree.this.name or tree.this.args["db"].name
    if name.lower() in catalog.databases:
        if tree.args.get("exists"):
            return None
        raise DdlRefused(f"there is a database {name} already")
    own, _ = _options(tree, _DEFAULT)
    return Change(jobs.CREATE_SCHEMA, DBInfo(catalog.next_id + 1, named(name), *own))


def _drop_database(tree: Tree, catalog: Catalog) -> Change | None:
    (named,) = tree.args["tables"]
    name = named.name or named.args["db"].name
    if name.lower() not in catalog.databases and tree.args.get("exists"):
        return None
    return Change(jobs.DROP_SCHEMA, database(catalog, name), state=jobs.STATE_NONE)


def _drop_table(tree: Tree, catalog: Catalog) -> Change | None:
    if len(tree.args["tables"]) != 1 or tree.args.get("temporary"):
        raise refuse(tree)
    db, name = qualified(tree.args["tables"][0])
    if tree.args.get("exists") and catalog.find(db, name) is None:
        return None
    found = table_at(catalog, tree.args["tables"][0])
    gone = msgspec.structs.replace(found.info, state=jobs.STATE_NONE)
    return Change(
        jobs.DROP_TABLE, found.db, found.info.id, found.info.name.text, gone, jobs.STATE_NONE
    )


def _truncate(tree: Tree, catalog: Catalog) -> Change:
    if len(tree.expressions) != 1:
        raise refuse(tree)
    found = table_at(catalog, tree.expressions[0])
    info = msgspec.structs.replace(found.info, id=catalog.next_id + 1)
    return Change(jobs.TRUNCATE_TABLE, found.db, found.info.id, found.info.name.text, info)


def _drop_index(tree: Tree, catalog: Catalog) -> Change | None:
    if kind(tree.args.get("cluster")) != "OnProperty":
        raise refuse(tree)
    (named,) = tree.args["tables"]
    return drop_index(
        table_at(catalog, tree.args["cluster"].this), named.name, quiet=bool(tree.args["exists"])
    )


_OTHERS: Final[dict[tuple[str, str], Callable[[Tree, Catalog], Change | None]]] = {
    ("Create", "DATABASE"): _create_database,
    ("Create", "SCHEMA"): _create_database,
    ("Drop", "DATABASE"): _drop_database,
    ("Drop", "SCHEMA"): _drop_database,
    ("Drop", "TABLE"): _drop_table,
}


def _create_table(tree: Tree, catalog: Catalog) -> Change | None:
    if kind(tree.this) != "Schema" or tree.args.get("expression") or tree.args.get("replace"):
        raise refuse(tree)
    db_name, name = qualified(tree.this.this)
    db = database(catalog, db_name)
    if catalog.find(db_name, name) is not None:
        if tree.args.get("exists"):
            return None
        raise DdlRefused(f"there is a table {db_name}.{name} already")
    own, comment = _options(tree, (db.charset or _DEFAULT[0], db.collate or _DEFAULT[1]))
    columns: list[ColumnInfo] = []
    keys: list[Key] = []
    for part in tree.this.expressions:
        if kind(part) != "ColumnDef":
            keys.append(key(part))
            continue
        made = definition(part, len(columns) + 1, own)
        columns.append(made.column)
        name_alone = ((made.column.name.text, -1),)
        if made.primary:
            keys.append(Key("PRIMARY", name_alone, unique=True, primary=True))
        elif made.unique:
            keys.append(Key("", name_alone, unique=True))
    info = TableInfo(catalog.next_id + 1, named(name), own[0], own[1], comment=comment)
    return Change(
        jobs.CREATE_TABLE, db, info.id, name, _with_keys(with_columns(info, columns), keys)
    )


def _with_keys(info: TableInfo, keys: list[Key]) -> TableInfo:
    """An integer primary key is the row's handle, another one is clustered, as TiDB has it."""
    columns = list(info.columns)
    names = [column.name.lower for column in columns]
    if not columns or len(set(names)) < len(names):
        raise DdlRefused(f"table {info.name.text} has no columns, or two of one name")
    primary = [one for one in keys if one.primary]
    if len(primary) > 1:
        raise DdlRefused(f"table {info.name.text} has two primary keys")
    for name, _ in primary[0].parts if primary else ():
        if name.lower() not in names:
            raise DdlRefused(f"the primary key: there is no column {name}")
        at = names.index(name.lower())
        field = columns[at].type
        field = msgspec.structs.replace(field, Flag=field.Flag | FLAG_NOT_NULL | FLAG_PRIMARY)
        columns[at] = msgspec.structs.replace(columns[at], type=field)
    info = with_columns(info, columns)
    is_handle = bool(primary) and _is_handle(info, primary[0])
    for one in sorted(keys, key=lambda one: not one.primary):
        if one.primary and is_handle:
            continue
        made = index(one, len(info.indexes) + 1, info.columns, info.indexes)
        info = msgspec.structs.replace(info, index_info=(*info.indexes, made))
    return msgspec.structs.replace(
        info, pk_is_handle=is_handle, is_common_handle=bool(primary) and not is_handle
    )


def _is_handle(info: TableInfo, primary: Key) -> bool:
    (name, _), *more = primary.parts
    column = next(one for one in info.columns if one.name.lower == name.lower())
    return not more and column.type.Tp in INT_TYPES and column.type.Tp != T_YEAR


def _options(tree: Tree, default: tuple[str, str]) -> tuple[tuple[str, str], str]:
    """((character set, collation), comment) of a database or a table."""
    properties = tree.args.get("properties")
    found = {kind(one): one for one in properties.expressions} if properties is not None else {}
    charset = found.pop("CharacterSetProperty", None)
    collate = found.pop("CollateProperty", None)
    comment = found.pop("SchemaCommentProperty", None)
    for name, strange in found.items():
        if name not in _IGNORED:
            raise refuse(strange)
    own = collation(
        charset.this.name if charset is not None else "",
        collate.this.name if collate is not None else "",
        default,
    )
    return own, comment.this.name if comment is not None else ""
