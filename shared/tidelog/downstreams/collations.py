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


@lru_cache(maxsize=65536)
def _general_weight(char: str) -> str:
    """A character as `_general_ci` sees it: its base letter in upper case, one for one."""
    if char < "\x80":
        return char.upper()
    base = unicodedata.normalize("NFD", char)
    upper = (base[0] if all(unicodedata.combining(c) for c in base[1:]) else char).upper()
    return upper if len(upper) == 1 else char


def general_key(text: str) -> str:
    return "".join(map(_general_weight, text.rstrip(" ")))


def unpadded_key(text: str) -> str:
    return "".join(map(_general_weight, text))


def _compare(key: Callable[[str], str]) -> Compare:
    def compare(left: str, right: str) -> int:
        a, b = key(left), key(right)
        return (a > b) - (a < b)

    return compare


CASE_INSENSITIVE: dict[str, Compare] = {
    "utf8mb4_general_ci": _compare(general_key),
    "utf8mb4_unicode_ci": _compare(general_key),
    "utf8_general_ci": _compare(general_key),
    "utf8_unicode_ci": _compare(general_key),
    "gbk_chinese_ci": _compare(general_key),
    "utf8mb4_0900_ai_ci": _compare(unpadded_key),
}
"""To register by these names on every connection that writes or orders by a key of the file."""


def collation_of(name: str) -> str:
    """The SQLite collation of a key column of text; "" for comparison byte by byte."""
    if name in CASE_INSENSITIVE:
        return name
    return "" if name in ("binary", "utf8mb4_0900_bin") else PADDED
