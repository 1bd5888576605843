"""MySQL's collations for SQLite keys. Pure.

A collation here must never call two texts equal that the upstream tells apart: REPLACE would then
delete a row. Where the tables differ in the last corner, these are the finer ones.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from functools import lru_cache

Compare = Callable[[str, str], int]

PADDED = "RTRIM"
"""SQLite's own: compares bytes, ignores trailing spaces, as TiDB's `_bin` collations do."""

_APART = frozenset("\u0131\u0387")
"""A dotless i, which only some of them call an i, and a dot."""


@lru_cache(maxsize=65536)
def _weight(char: str) -> str:
    """A character as all of the upstream's case-insensitive collations of Unicode see it: a Latin
    or Greek letter as its base letter in upper case, a Cyrillic one in upper case. What only some
    of them call equal, й and и, か and が, is not equal here."""
    if char in _APART:
        return char
    base = char
    if char < "\u0180" or "\u0386" <= char <= "\u03ce" or "\u1e00" <= char <= "\u1ef9":
        parts = unicodedata.normalize("NFD", char)
        if all(map(unicodedata.combining, parts[1:])):
            base = parts[0]
    elif not "\u0400" <= char < "\u0460":
        return char
    upper = base.upper()
    return upper if len(upper) == 1 else char


def unicode_key(text: str) -> str:
    return "".join(map(_weight, text.rstrip(" ")))


def unpadded_key(text: str) -> str:
    return "".join(map(_weight, text))


def gbk_key(text: str) -> str:
    """Every letter beyond ASCII has a place of its own there."""
    return "".join([char.upper() if char < "\x80" else char for char in text.rstrip(" ")])


def _compare(key: Callable[[str], str]) -> Compare:
    def compare(left: str, right: str) -> int:
        a, b = key(left), key(right)
        return (a > b) - (a < b)

    return compare


CASE_INSENSITIVE: dict[str, Compare] = {
    "utf8mb4_general_ci": _compare(unicode_key),
    "utf8mb4_unicode_ci": _compare(unicode_key),
    "utf8_general_ci": _compare(unicode_key),
    "utf8_unicode_ci": _compare(unicode_key),
    "gbk_chinese_ci": _compare(gbk_key),
    "utf8mb4_0900_ai_ci": _compare(unpadded_key),
}
"""To register by these names on every connection that writes or orders by a key of the file."""


def collation_of(name: str) -> str:
    """The SQLite collation of a key column of text; "" for comparison byte by byte."""
    if name in CASE_INSENSITIVE:
        return name
    return "" if name in ("binary", "utf8mb4_0900_bin") else PADDED


def beyond_order(name: str) -> str:
    """A GLOB of the texts that this collation may order otherwise than the upstream's, which has
    weights of its own for signs and for letters beyond ASCII; "" where there are none."""
    if name not in CASE_INSENSITIVE:
        return ""
    return "*[^ -~]*" if name.endswith("_general_ci") else "*[^0-9A-Za-z]*"
