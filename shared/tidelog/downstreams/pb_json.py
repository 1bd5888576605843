"""JSON values as the text that TiDB shows: `{"a": [1, 2.5], "b": null}`. Pure."""

from __future__ import annotations

import json
from decimal import Decimal
from math import isfinite
from typing import Any

_quoted = json.JSONEncoder(ensure_ascii=False).encode


def json_text(value: Any) -> str:
    if isinstance(value, dict):
        members = [f"{_text(key)}: {json_text(one)}" for key, one in value.items()]
        return "{" + ", ".join(members) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(json_text, value)) + "]"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, float):
        return _float(value)
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _text(value: str) -> str:
    """Go's way: the line separators are escaped too, and control characters by their number."""
    return _quoted(value).replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _float(value: float) -> str:
    """The shortest digits; with an exponent below 1e-6 and from 1e21 on."""
    if not isfinite(value):
        raise ValueError(f"{value} is no JSON number")
    text = repr(value)
    if value and not 1e-6 <= abs(value) < 1e21:
        digits, _, exponent = text.partition("e")
        return f"{digits.removesuffix('.0')}e{int(exponent):+d}"
    return format(Decimal(text), "f").removesuffix(".0")
