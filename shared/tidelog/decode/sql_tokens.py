"""A DDL's text as tokens with their places, so that all around a change stays as it was. Pure.

sqlglot's generator would write the whole statement anew, in its own style; and TiDB's options are
in no dialect it knows. So its tokenizer finds the words, and what is not touched keeps its bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import ClassVar

import msgspec
from sqlglot import TokenType
from sqlglot.dialects.mysql import MySQL
from sqlglot.errors import TokenError

FEATURE, EXECUTED = "/*T!", "/*!"

_COMMENT = re.compile(r"/\*.*?\*/|(?:#|--)[^\n]*", re.DOTALL)
_FEATURES = re.compile(r"/\*T!\[([a-z_, ]+)\]")


class Token(msgspec.Struct, frozen=True):
    """`word`: upper case, of signs and numbers too; "" for what is quoted. `text`: what it names,
    unquoted. `depth`: how many parentheses are open around it. `features`: of a comment that only
    a TiDB with these features reads."""

    word: str
    text: str
    start: int
    end: int
    depth: int
    is_string: bool = False
    features: frozenset[str] = frozenset()


class NotTokens(Exception):
    """Text whose words can't be told apart."""


class _Words(MySQL.Tokenizer):
    """RENAME, LOCK and others are words like any: MySQL's own tokenizer takes all behind them for
    one string."""

    COMMANDS: ClassVar[set[TokenType]] = set()


_PART = re.compile(r"\S+")


def tokens(query: str) -> list[Token]:
    """In order, with comments that a server executes among them; other comments belong to the
    space between. Raises NotTokens."""
    try:
        found = _Words(dialect="mysql").tokenize(query)  # by which a name may begin with a digit
    except TokenError as error:
        raise NotTokens(str(error)) from error
    made: list[Token] = []
    at = depth = 0
    for one in found:
        made.extend(_executed(query, at, one.start, depth))
        at = one.end + 1
        source = query[one.start : at]
        depth -= source == ")"
        # "partition  by" is one token, whose text is "PARTITION BY".
        as_it_stands = one.text.upper() == " ".join(source.upper().split())
        if one.token_type in (TokenType.IDENTIFIER, TokenType.STRING) or not as_it_stands:
            is_string = one.token_type is TokenType.STRING
            made.append(Token("", one.text, one.start, at, depth, is_string))
        else:
            made.extend(
                Token(
                    part[0].upper(),
                    part[0],
                    one.start + part.start(),
                    one.start + part.end(),
                    depth,
                )
                for part in _PART.finditer(source)
            )
        depth += source == "("
    made.extend(_executed(query, at, len(query), depth))
    return made


def _executed(query: str, start: int, end: int, depth: int) -> Iterable[Token]:
    """The executed comments between two tokens."""
    for comment in _COMMENT.finditer(query, start, end):
        if comment[0].startswith((FEATURE, EXECUTED)):
            named = _FEATURES.match(comment[0])
            features = frozenset(named[1].replace(" ", "").split(",")) if named else frozenset()
            yield Token("", "", *comment.span(), depth, features=features)


def words(found: Iterable[Token]) -> list[str]:
    """To compare with."""
    return [one.word for one in found]


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def replaced(query: str, changes: Iterable[tuple[int, int, str]]) -> str:
    """`changes`: (start, end, text instead), in any order, not overlapping."""
    parts: list[str] = []
    at = 0
    for start, end, text in sorted(changes):
        parts += [query[at:start], text]
        at = end
    return "".join([*parts, query[at:]])
