"""ALTER TABLE with one action, and indexes."""

from __future__ import annotations

import re

import msgspec

from tidelog.pump_client.ddl.change import Change, with_columns, with_index
from tidelog.pump_client.ddl.columns import definition
from tidelog.pump_client.ddl.errors import DdlRefused
from tidelog.pump_client.ddl.keys import Key, index, key, prefix
from tidelog.pump_client.ddl.names import Found, database, named, qualified, table_at
from tidelog.pump_client.ddl.parse import Tree, kind, refuse
from tidelog.pump_client.tables.catalog import Catalog
from tidelog.schema import jobs
from tidelog.schema.model import (
    FLAG_AUTO_INCREMENT,
    FLAG_PRIMARY,
    ColumnInfo,
    Default,
    TableInfo,
)


def alter(tree: Tree, catalog: Catalog, now: str) -> Change | None:
    """Raises DdlNotSupported, DdlRefused."""
    actions = tree.args.get("actions") or []
    if len(actions) != 1 or tree.args.get("options"):
        raise refuse(tree)
    found, (action,) = table_at(catalog, tree.this), actions
    what = kind(action)
    if what == "ColumnDef":
        return _add_column(found, action, catalog.next_id + 1, now)
    if what == "Drop" and action.args.get("kind") == "COLUMN":
        return _drop_column(found, action)
    if what == "Drop" and action.args.get("kind") == "INDEX":
        name = action.args["tables"][0].name
        return drop_index(found, name, quiet=bool(action.args.get("exists")))
    if what == "ModifyColumn" and action.args.get("rename_from") is None:
        return _modify_column(found, action.this)
    if what == "AddConstraint" and len(action.expressions) == 1:
        return put_index(found, key(action.expressions[0]), catalog.next_id + 1)
    if what == "AlterRename":
        return _rename(found, action.this, catalog)
    raise refuse(action)


def put_index(found: Found, wanted: Key, index_id: int) -> Change:
    """ADD INDEX, CREATE INDEX."""
    if wanted.primary:
        raise DdlRefused("a primary key is given when a table is created")
    info = found.info
    number = max([index_id, *(1 + one.id for one in info.indexes)])
    made = index(wanted, number, info.columns, info.indexes)
    return _change(found, jobs.ADD_INDEX, with_index(info, made))


def drop_index(found: Found, name: str, *, quiet: bool) -> Change | None:
    kept = tuple(one for one in found.info.indexes if one.idx_name.lower != name.lower())
    if len(kept) == len(found.info.indexes):
        if quiet:
            return None
        raise DdlRefused(f"there is no index {name}")
    if any(one.is_primary for one in found.info.indexes if one not in kept):
        raise DdlRefused("a primary key stays")
    info = msgspec.structs.replace(found.info, index_info=kept or None)
    return _change(found, jobs.DROP_INDEX, info, jobs.STATE_NONE)


def _change(found: Found, job: int, info: TableInfo, state: int = jobs.STATE_PUBLIC) -> Change:
    return Change(job, found.db, found.info.id, found.info.name.text, info, state)


def _add_column(found: Found, tree: Tree, fresh_id: int, now: str) -> Change | None:
    columns = list(found.info.columns)
    if _at(columns, tree.name) is not None:
        if tree.args.get("exists"):
            return None
        raise DdlRefused(f"there is a column {tree.name} already")
    # An id that no dropped column of this table ever had.
    column_id = max(fresh_id, *(1 + column.id for column in columns))
    made = definition(tree, column_id, (found.info.charset, found.info.collate))
    if made.primary or made.unique or made.column.type.Flag & FLAG_AUTO_INCREMENT:
        raise refuse(tree, "adds a key: add the column first, then the index")
    column = msgspec.structs.replace(
        made.column,
        origin_default=_at_once(made.column, now),
        origin_default_bit=made.column.default_bit,
    )
    columns.insert(_place(columns, tree, len(columns)), column)
    return _change(found, jobs.ADD_COLUMN, with_columns(found.info, columns))


def _drop_column(found: Found, tree: Tree) -> Change | None:
    name = tree.args["tables"][0].name
    columns = list(found.info.columns)
    at = _at(columns, name)
    if at is None:
        if tree.args.get("exists"):
            return None
        raise DdlRefused(f"there is no column {name}")
    if len(columns) == 1:
        raise DdlRefused("a table keeps one column: drop the table")
    if columns[at].type.Flag & FLAG_PRIMARY or any(
        part.offset == at for one in found.info.indexes for part in one.idx_cols
    ):
        raise DdlRefused(f"column {name} is in a key", hint="drop the index first")
    word = re.compile(rf"`{re.escape(name)}`", re.IGNORECASE)
    if any(word.search(one.generated_expr_string) for one in columns):
        raise DdlRefused(f"a generated column is computed from {name}", hint="drop that first")
    del columns[at]
    info = with_columns(found.info, columns)
    return _change(found, jobs.DROP_COLUMN, info, jobs.STATE_NONE)


def _modify_column(found: Found, tree: Tree) -> Change:
    columns = list(found.info.columns)
    at = _at(columns, tree.name)
    if at is None:
        raise DdlRefused(f"there is no column {tree.name}")
    old = columns.pop(at)
    made = definition(tree, old.id, (found.info.charset, found.info.collate))
    if made.primary or made.unique or old.type.Flag & FLAG_PRIMARY:
        raise refuse(tree, "changes a key, or a column of the primary key")
    if bool(old.generated_expr_string) != bool(made.column.generated_expr_string):
        raise refuse(tree, "makes a column generated, or a generated one plain")
    column = msgspec.structs.replace(
        made.column,
        origin_default=old.origin_default,
        origin_default_bit=old.origin_default_bit,
    )
    columns.insert(_place(columns, tree, at), column)
    info = _with_keys_over(found.info, column)
    return _change(found, jobs.MODIFY_COLUMN, with_columns(info, columns))


def _with_keys_over(info: TableInfo, changed: ColumnInfo) -> TableInfo:
    """What a column can be in a key, it must be when it is changed. Raises DdlRefused."""
    replace = msgspec.structs.replace
    indexes = tuple(
        replace(
            one,
            idx_cols=tuple(
                replace(part, length=prefix(changed, part.length))
                if part.name.lower == changed.name.lower
                else part
                for part in one.idx_cols
            ),
        )
        for one in info.indexes
    )
    return replace(info, index_info=indexes or None)


def _rename(found: Found, target: Tree, catalog: Catalog) -> Change:
    db_name, name = qualified(target)
    db = database(catalog, db_name)
    if catalog.find(db_name, name) is not None:
        raise DdlRefused(f"there is a table {db_name}.{name} already")
    info = msgspec.structs.replace(found.info, name=named(name))
    return Change(jobs.RENAME_TABLE, db, info.id, name, info)


def _at(columns: list[ColumnInfo], name: str) -> int | None:
    lower = name.lower()
    return next((at for at, one in enumerate(columns) if one.name.lower == lower), None)


def _place(columns: list[ColumnInfo], tree: Tree, default: int) -> int:
    """Where FIRST or AFTER puts the column."""
    position = tree.args.get("position")
    if position is None:
        return default
    if str(position.args.get("position")).lower() == "first":
        return 0
    at = _at(columns, position.this.name)
    if at is None:
        raise DdlRefused(f"there is no column {position.this.name}")
    return at + 1


def _at_once(column: ColumnInfo, now: str) -> Default:
    """What rows hold that are older than the column."""
    if column.default != "CURRENT_TIMESTAMP":
        return column.default
    digits = column.type.Decimal
    return now[: 20 + digits] if digits > 0 else now[:19]
