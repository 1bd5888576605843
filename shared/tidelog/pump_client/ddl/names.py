"""Names in a statement, found in the catalog."""

from __future__ import annotations

import msgspec

from tidelog.pump_client.ddl.errors import DdlNotSupported, DdlRefused
from tidelog.pump_client.ddl.parse import Tree
from tidelog.pump_client.tables.catalog import Catalog
from tidelog.schema.model import DBInfo, Name, TableInfo

NAME_CHARS = 64
"""Of a database, table, column or key: what any server takes."""


class Found(msgspec.Struct, frozen=True):
    """A living table and its database."""

    db: DBInfo
    info: TableInfo


def named(name: str) -> Name:
    """A new one. Raises DdlRefused."""
    if not name or len(name) > NAME_CHARS or name.endswith(" "):
        raise DdlRefused(f"{name!r} is no name of at most {NAME_CHARS} characters")
    return Name(name, name.lower())


def qualified(tree: Tree) -> tuple[str, str]:
    """(database, table). Raises DdlNotSupported: a client has no current database."""
    db = tree.args.get("db")
    if db is None or tree.args.get("catalog") is not None:
        raise DdlNotSupported(f"{tree.sql(dialect='mysql')} is no db.table")
    return str(db.name), str(tree.name)


def database(catalog: Catalog, name: str) -> DBInfo:
    """Raises DdlRefused."""
    found = catalog.databases.get(name.lower())
    if found is None:
        raise DdlRefused(f"there is no database {name}", hint=f"create database {name}")
    return found


def table_at(catalog: Catalog, tree: Tree) -> Found:
    """Raises DdlRefused."""
    db, name = qualified(tree)
    at = catalog.find(db, name)
    if at is None:
        raise DdlRefused(f"there is no table {db}.{name}")
    if at.info.view is not None or at.info.sequence is not None or at.info.partition is not None:
        raise DdlNotSupported(f"{db}.{name} is a view, a sequence or partitioned")
    return Found(database(catalog, db), at.info)
