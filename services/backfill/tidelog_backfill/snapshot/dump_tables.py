"""A table's structure out of a dump's CREATE TABLE: its columns and keys. Pure.

What else the statement says (partitions, foreign keys, CHECKs, keys over words or expressions,
defaults that are computed) a copy does without, and it is said.
"""

from __future__ import annotations

from itertools import pairwise

from sqlglot import exp

from tidelog.decode.sql_tokens import NotTokens, tokens
from tidelog.errors import BadInput
from tidelog.pump_client.ddl.columns import definition
from tidelog.pump_client.ddl.errors import DdlNotSupported
from tidelog.pump_client.ddl.keys import key
from tidelog.pump_client.ddl.parse import Tree, kind, parse
from tidelog.pump_client.ddl.plan import plan
from tidelog.pump_client.tables.catalog import Catalog
from tidelog.schema.history import TableAt
from tidelog.schema.model import DBInfo, Name
from tidelog.schema.structure import TableStructure, structure

_OF_COLUMNS = frozenset(
    f"{name}ColumnConstraint"
    for name in (
        *("NotNull", "PrimaryKey", "Unique", "AutoIncrement", "CharacterSet", "Collate"),
        *("Comment", "Computed", "OnUpdate"),
    )
)
"""What a copy's column has in any case, or is refused for."""
_OF_TABLES = frozenset(
    f"{name}Property"
    for name in ("Engine", "AutoIncrement", "CharacterSet", "Collate", "SchemaComment")
)
_CHARSET = "utf8mb4", "utf8mb4_bin"
_SHOWN = 80
"""Characters of what is left out."""


def defined(db: str, text: str) -> tuple[TableStructure, list[str]]:
    """Of a file with CREATE TABLE, as the server said it, and what it lacks then, a phrase each.
    Raises BadInput (DdlNotSupported, DdlRefused)."""
    statement, lacks = _statement(text)
    tree = parse(statement)
    if kind(tree) != "Create" or kind(tree.this) != "Schema":
        raise DdlNotSupported(f"{_brief(tree)} can't be read")
    tree.this.this.set("db", exp.to_identifier(db))
    lacks += [*_without_parts(tree), *_without_properties(tree)]
    catalog = Catalog()
    catalog.databases[db.lower()] = DBInfo(1, Name(db, db.lower()))
    change = plan(tree, catalog, "")
    assert change is not None
    assert change.info is not None
    return structure(TableAt(db, change.info.name.text, 0, change.info)), lacks


def _statement(text: str) -> tuple[str, list[str]]:
    """CREATE TABLE up to its partitions, whose forms the parser does not know."""
    try:
        found = tokens(text)
    except NotTokens as error:
        raise BadInput(f"its words can't be told apart: {error}") from error
    found = [one for one in found if one.word or one.text]
    words = [one.word for one in found]
    pairs = list(pairwise(words))
    if ("CREATE", "TABLE") not in pairs:
        raise BadInput("it has no CREATE TABLE")
    begin = pairs.index(("CREATE", "TABLE"))
    for at in range(begin, len(found)):
        if words[at] == ";":
            return text[found[begin].start : found[at].start], []
        if found[at].depth == 0 and words[at : at + 2] == ["PARTITION", "BY"]:
            return text[found[begin].start : found[at].start], ["its partitions"]
    return text[found[begin].start :], []


def _without_parts(tree: Tree) -> list[str]:
    """Keys and constraints that a copy can't have, and those of its columns."""
    lacks: list[str] = []
    for part in list(tree.this.expressions):
        if kind(part) == "ColumnDef":
            lacks += _without_constraints(part)
            continue
        part.set("options", None)  # of a key: how it is stored, who sees it
        try:
            key(part)
        except DdlNotSupported:
            if kind(part) == "PrimaryKey":
                raise
            lacks.append(_brief(part))
            part.pop()
    return lacks


def _without_constraints(column: Tree) -> list[str]:
    try:
        definition(column, 1, _CHARSET)
    except BadInput:
        strange = [
            one for one in column.args["constraints"] or [] if kind(one.kind) not in _OF_COLUMNS
        ]
        for one in strange:
            one.pop()
        return [f"{_brief(one)} of column {column.name}" for one in strange]
    return []


def _without_properties(tree: Tree) -> list[str]:
    properties = tree.args.get("properties")
    found = properties.expressions if properties is not None else []
    strange = [one for one in found if kind(one) not in _OF_TABLES]
    for one in strange:
        one.pop()
    return [_brief(one) for one in strange]


def _brief(tree: Tree) -> str:
    text = str(tree.sql(dialect="mysql"))
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]} [...]"
