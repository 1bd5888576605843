"""MySQL expressions of generated columns and indexes for SQLite, by sqlglot. Pure."""

from __future__ import annotations

import re
from typing import ClassVar

import sqlglot
from sqlglot import exp
from sqlglot.dialects.sqlite import SQLite
from sqlglot.errors import SqlglotError

from tidelog.schema.structure import ColumnStructure, TableStructure

_INTS = ("tinyint", "smallint", "mediumint", "int", "bigint")
_TEXTS = ("varchar", "tinytext", "text", "mediumtext", "longtext")
_HOLD: dict[str, tuple[str, ...]] = {
    "int": (*_INTS, *_TEXTS, "double"),
    "real": ("double",),
    "text": _TEXTS,
    "json": ("json",),
}
"""The types that keep a value of such a kind as it is. (CHAR loses its last spaces.)"""

_OF_INTS = (
    *(exp.Mod, exp.And, exp.Or, exp.EQ, exp.NEQ, exp.NullSafeEQ),
    *(exp.GT, exp.GTE, exp.LT, exp.LTE),
)
_INTRODUCER = re.compile(r"_(?:utf8mb4|utf8mb3|utf8|latin1|ascii|binary|gbk)(?=')", re.IGNORECASE)


class _Backticks(SQLite):
    """As `table_sqlite.name` has it: a column that is not there is an error, never a text."""

    class Tokenizer(SQLite.Tokenizer):
        IDENTIFIERS: ClassVar[list[str | tuple[str, str]]] = ["`"]


def expression(mysql: str) -> str | None:
    """The expression in SQLite's dialect; None if it isn't understood. SQLite itself has the last
    word when it is used. Its values may differ: enough for an index that is not unique."""
    try:
        return _parsed(mysql).sql(dialect=_Backticks)
    except (SqlglotError, RecursionError):
        return None


def same_expression(column: ColumnStructure, structure: TableStructure) -> str | None:
    """The expression of a virtual column; None if it isn't sure that its values are the
    upstream's. (Of JSON that is a document, the text is without spaces.)"""
    try:
        tree = _parsed(column.generated)
        holding = _HOLD.get(_Kinds(structure).of(tree), ())
        if column.binary or column.base not in holding:
            return None
        return tree.transform(_exact).sql(dialect=_Backticks)
    except (SqlglotError, RecursionError):  # of one that is nested deeply, too
        return None


def _parsed(mysql: str) -> exp.Expression:
    """Raises SqlglotError, RecursionError."""
    tree = sqlglot.parse_one(_INTRODUCER.sub("", mysql), read="mysql")
    return tree.transform(_unquoted_json)


def _unquoted_json(node: exp.Expression) -> exp.Expression:
    """`json_unquote(json_extract(a, path))` is SQLite's `a ->> path`."""
    if isinstance(node, exp.Anonymous) and node.name.lower() == "json_unquote":
        inner = node.expressions[0] if node.expressions else None
        if isinstance(inner, exp.JSONExtract):
            return exp.JSONExtractScalar(this=inner.this, expression=inner.expression)
    return node


def _exact(node: exp.Expression) -> exp.Expression:
    """SQLite's `->>` is 1 where MySQL says true, NULL for null, and rounds large numbers."""
    if isinstance(node, exp.Left):
        one = exp.Literal.number(1)
        return exp.Substring(this=node.this, start=one, length=node.expression)
    if not isinstance(node, exp.JSONExtractScalar):
        return node
    of = {"this": node.this, "expression": node.expression}
    path = exp.Literal.string(node.expression.sql(dialect=_Backticks).strip("'"))
    is_text = exp.func("json_type", node.this.copy(), path).eq("text")
    return exp.Paren(
        this=exp.Case(
            ifs=[exp.If(this=is_text, true=exp.JSONExtractScalar(**of))],
            default=exp.JSONExtract(**of),
        )
    )


class _Kinds:
    """What the values of an expression are that means the same in both dialects: "int", "real",
    "text", "json", "null"; "" where that isn't sure."""

    def __init__(self, structure: TableStructure) -> None:
        self._columns = {one.name.lower(): one for one in structure.columns}

    def of(self, node: exp.Expression) -> str:
        match node:
            case exp.Column():
                column = self._columns.get(node.name.lower())
                return _column_kind(column) if column is not None else ""
            case exp.Literal():
                return "text" if node.is_string else "int" if _counted(node, 0) else ""
            case exp.Null():
                return "null"
            case exp.Boolean():
                return "int"
            case exp.Paren():
                return self.of(node.this)
            case exp.JSONExtractScalar() | exp.JSONExtract() if self.of(node.this) == "json":
                found = "text" if isinstance(node, exp.JSONExtractScalar) else "json"
                return found if _plain_path(node) else ""
            case _:
                return self._operation(node) or self._chosen(node) or self._text(node)

    def _one(self, *nodes: exp.Expression | None) -> str:
        """That of all of them."""
        found = {self.of(one) for one in nodes if one is not None} - {"null"}
        return found.pop() if len(found) == 1 else ""

    def _operation(self, node: exp.Expression) -> str:
        match node:
            case exp.Add() | exp.Sub() | exp.Mul():
                found = {self.of(node.this), self.of(node.expression)}
                return "" if found - {"int", "real"} else "real" if "real" in found else "int"
            case exp.Neg() | exp.Abs() | exp.Not():
                return "int" if self.of(node.this) == "int" else ""
            case exp.Predicate() if _ungrouped(node):
                return ""
            case exp.Is():
                return "int" if isinstance(node.expression, exp.Null) and self.of(node.this) else ""
            case _ if type(node) in _OF_INTS:
                return "int" if self._one(node.this, node.expression) == "int" else ""
            case _:
                return ""

    def _chosen(self, node: exp.Expression) -> str:
        match node:
            case exp.Coalesce():
                return self._one(node.this, *node.expressions)
            case exp.If() if self.of(node.this) == "int":
                return self._one(node.args["true"], node.args.get("false"))
            case exp.Case() if node.this is None:
                tests = {self.of(one.this) for one in node.args["ifs"]}
                results = [one.args["true"] for one in node.args["ifs"]]
                return self._one(*results, node.args.get("default")) if tests == {"int"} else ""
            case _:
                return ""

    def _text(self, node: exp.Expression) -> str:
        match node:
            case exp.Concat():
                # `||` binds closer than any operator.
                plain = not any(isinstance(one, exp.Binary | exp.Neg) for one in node.expressions)
                found = {self.of(one) for one in node.expressions}
                return "text" if plain and found <= {"text", "int"} else ""
            case exp.Left() if _counted(node.expression, 0):
                return "text" if self.of(node.this) == "text" else ""
            case exp.Substring() if _counted(node.args.get("start"), 1):
                length = node.args.get("length")
                counted = length is None or _counted(length, 0)
                return "text" if counted and self.of(node.this) == "text" else ""
            case _:
                return ""


def _column_kind(column: ColumnStructure) -> str:
    """Of a column whose values are held as they are."""
    if column.base in _INTS and not column.zerofill:
        return "" if column.base == "bigint" and column.unsigned else "int"
    if column.base in (*_TEXTS, "char") and not column.binary:
        return "text"
    return {"double": "real", "json": "json"}.get(column.base, "")


def _ungrouped(node: exp.Expression) -> bool:
    """`a = b < c` is (a = b) < c for MySQL, a = (b < c) for SQLite."""
    return any(isinstance(one, exp.Predicate) for one in (node.this, node.args.get("expression")))


def _counted(node: exp.Expression | None, least: int) -> bool:
    return (
        isinstance(node, exp.Literal)
        and node.name.isdigit()
        and int(node.name) in range(least, 1 << 63)
    )


def _plain_path(node: exp.Expression) -> bool:
    """Of names and numbers only: SQLite knows no wildcards."""
    path = node.expression
    parts = path.expressions if isinstance(path, exp.JSONPath) else ()
    steps = (exp.JSONPathRoot, exp.JSONPathKey, exp.JSONPathSubscript)
    plain = bool(parts) and all(
        type(one) in steps and isinstance(one.args.get("this", ""), str | int) for one in parts
    )
    return plain and not node.expressions and "'" not in path.sql(dialect=_Backticks)[1:-1]
