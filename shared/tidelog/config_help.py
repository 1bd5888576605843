"""What each key of a configuration is for: the docstrings below the fields, read from the source,
so that they are written once for who reads the code, `--help` and docs/reference/config.md."""

from __future__ import annotations

import ast
import inspect
import textwrap
from functools import cache

import msgspec


@cache
def field_helps(cls: type[msgspec.Struct]) -> dict[str, str]:
    """Field name -> its docstring as one line; of a field that several classes have, the nearest
    one's that says anything. Without the source (a frozen application) nothing is known."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if issubclass(base, msgspec.Struct) and base is not msgspec.Struct:
            found |= _own_helps(base)
    return found


def _own_helps(cls: type) -> dict[str, str]:
    try:
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    except (OSError, TypeError):
        return {}
    assert isinstance(definition, ast.ClassDef)
    found: dict[str, str] = {}
    for field, below in zip(definition.body, definition.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            text = _text(below)
            if text:
                found[field.target.id] = " ".join(text.split())
    return found


def _text(statement: ast.stmt) -> str:
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return str(statement.value.value)
    return ""
