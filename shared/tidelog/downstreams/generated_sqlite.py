"""MySQL expressions of generated columns and indexes for SQLite, by sqlglot. Pure."""

from __future__ import annotations

import re
from typing import ClassVar

import sqlglot
from sqlglot import exp
from sqlglot.dialects.sqlite import SQLite
from sqlglot.errors import SqlglotError

_INTRODUCER = re.compile(r"_(?:utf8mb4|utf8mb3|utf8|latin1|ascii|binary|gbk)(?=')", re.IGNORECASE)


class _Backticks(SQLite):
    """As `table_sqlite.name` has it: a column that is not there is an error, never a text."""

    class Tokenizer(SQLite.Tokenizer):
        IDENTIFIERS: ClassVar[list[str | tuple[str, str]]] = ["`"]


def expression(mysql: str) -> str | None:
    """The expression in SQLite's dialect; None if it isn't understood. SQLite itself has the last
    word when the column is created."""
    try:
        tree = sqlglot.parse_one(_INTRODUCER.sub("", mysql), read="mysql")
        return tree.transform(_unquoted_json).sql(dialect=_Backticks)
    except (SqlglotError, RecursionError):
        return None


def _unquoted_json(node: exp.Expression) -> exp.Expression:
    """`json_unquote(json_extract(a, path))` is SQLite's `a ->> path`."""
    if isinstance(node, exp.Anonymous) and node.name.lower() == "json_unquote":
        inner = node.expressions[0] if node.expressions else None
        if isinstance(inner, exp.JSONExtract):
            return exp.JSONExtractScalar(this=inner.this, expression=inner.expression)
    return node
