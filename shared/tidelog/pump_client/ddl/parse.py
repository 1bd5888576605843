"""SQL text -> sqlglot's tree of one statement, with a name for the table in RENAME TABLE."""

from __future__ import annotations

import logging
import re
from typing import Any

from tidelog.errors import ConfigError
from tidelog.pump_client.ddl.errors import DdlNotSupported

Tree = Any
"""A sqlglot expression: the package has no types of its own that we check against."""

_RENAME = re.compile(r"\s*rename\s+table\s+(.+?)\s+to\s+(.+)", re.IGNORECASE | re.DOTALL)
_REAL = re.compile(r"\breal\b", re.IGNORECASE)


def parse(query: str) -> Tree:
    """Raises DdlNotSupported, ConfigError when sqlglot is missing."""
    try:
        import sqlglot
        from sqlglot.errors import SqlglotError
    except ImportError as error:
        raise ConfigError(
            "schema changes need sqlglot", hint="pip install '.[writer]' in a checkout of Tidelog"
        ) from error
    text = query.strip().rstrip(";")
    rename = _RENAME.fullmatch(text)
    if rename is not None:
        text = f"ALTER TABLE {rename[1]} RENAME TO {rename[2]}"
    if _REAL.search(text):
        # sqlglot takes it for FLOAT, MySQL for DOUBLE.
        raise DdlNotSupported("REAL is not supported: say DOUBLE or FLOAT")
    logging.getLogger("sqlglot").setLevel(logging.ERROR)
    try:
        trees = [tree for tree in sqlglot.parse(text, read="mysql") if tree is not None]
    except SqlglotError as error:
        raise DdlNotSupported(
            f"the statement can't be read: {str(error).splitlines()[0]}"
        ) from None
    if len(trees) != 1:
        raise DdlNotSupported(f"{len(trees)} statements at once")
    return trees[0]


def kind(tree: Tree) -> str:
    """The class of a node by name: `ColumnDef`, `AddConstraint`."""
    return type(tree).__name__ if tree is not None else ""


def refuse(tree: Tree, why: str = "is not supported") -> DdlNotSupported:
    """The error that quotes a part of the statement."""
    text = tree.sql(dialect="mysql") if hasattr(tree, "sql") else str(tree)
    return DdlNotSupported(f"{text} {why}")
