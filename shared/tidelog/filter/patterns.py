"""Patterns of names: those of the lists and those of the rules. All compare without case."""

from __future__ import annotations

import re
from functools import cache

_FLAGS = re.IGNORECASE | re.DOTALL
_RANGE_MAX = 256
"""Characters in one range of a class."""


def regexp(text: str, where: str) -> re.Pattern[str]:
    """Raises ValueError that names `where` it stands."""
    try:
        return re.compile(text, _FLAGS)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"{where}: {text!r} is no regular expression: {error}") from error


class ListPattern:
    """`name`, or `~` and a regular expression for the whole name."""

    def __init__(self, text: str, where: str) -> None:
        """Raises ValueError."""
        if text in ("", "~"):
            raise ValueError(f"{where}: a name or ~REGEXP is expected, not {text!r}")
        self._regexp = regexp(text[1:], where) if text[0] == "~" else None
        self._name = text.lower()

    def matches(self, name: str) -> bool:
        if self._regexp is not None:
            return self._regexp.fullmatch(name) is not None
        return name.lower() == self._name


_STAR = None
_ANY = frozenset[str]()
_WILDCARD_MAX = 256
"""Characters; no name has more than 64."""
_Token = frozenset[str] | None
"""One character of the set, _ANY one, or _STAR: any number."""


class Wildcard:
    """A name with `*` (any characters), `?` (one), `[a-z]` and `[!a-z]` (one of a class)."""

    def __init__(self, text: str, where: str) -> None:
        """Raises ValueError."""
        if len(text) > _WILDCARD_MAX:
            raise ValueError(f"{where}: {text[:40]!r}… is longer than {_WILDCARD_MAX} characters")
        self.text = text
        self._tokens: list[_Token] = []
        parts: list[str] = [""]
        rest = text.lower()
        while rest:
            token, form, rest = _next_token(rest, f"{where}: {text!r}")
            self._tokens.append(token)
            if token is _STAR:
                parts.append("")
            else:
                parts[-1] += form
        self._regexp = regexp(_joined(parts), where)
        self.is_literal = all(token and len(token) == 1 for token in self._tokens)

    def matches(self, name: str) -> bool:
        return self._regexp.fullmatch(name.lower()) is not None

    def overlaps(self, other: Wildcard) -> bool:
        """Whether some name matches both. (A negated class counts as any character.)"""
        ours, theirs = self._tokens, other._tokens

        @cache
        def meet(i: int, j: int) -> bool:
            a = ours[i] if i < len(ours) else _ANY
            b = theirs[j] if j < len(theirs) else _ANY
            if i < len(ours) and a is _STAR:
                return meet(i + 1, j) or (j < len(theirs) and meet(i, j + 1))
            if j < len(theirs) and b is _STAR:
                return meet(i, j + 1) or (i < len(ours) and meet(i + 1, j))
            if i == len(ours) or j == len(theirs):
                return i == len(ours) and j == len(theirs)
            assert a is not None
            assert b is not None
            return (not a or not b or bool(a & b)) and meet(i + 1, j + 1)

        return meet(0, 0)


def _joined(parts: list[str]) -> str:
    """With any characters between the parts. Each of the inner ones is looked for once: where it is
    found first is as good as later, so nothing is tried again."""
    first, *inner = parts
    if not inner:
        return first
    last = inner.pop()
    return first + "".join(f"(?>.*?{one})" for one in inner) + ".*" + last


def _next_token(rest: str, where: str) -> tuple[_Token, str, str]:
    """The first token, its regular expression, and what follows."""
    head, tail = rest[0], rest[1:]
    if head == "*":
        return _STAR, "", tail
    if head == "?":
        return _ANY, ".", tail
    if head != "[":
        return frozenset(head), re.escape(head), tail
    body, closed, tail = tail.partition("]")
    negated = body.startswith("!")
    letters = _letters(body.removeprefix("!"), where)
    if not closed or not letters:
        raise ValueError(f"{where}: a class of characters is written [a-z] or [!a-z]")
    form = "".join(map(re.escape, sorted(letters)))
    return (_ANY if negated else letters), f"[{'^' if negated else ''}{form}]", tail


def _letters(body: str, where: str) -> frozenset[str]:
    found: set[str] = set()
    at = 0
    while at < len(body):
        first = last = ord(body[at])
        if body[at + 1 : at + 2] == "-" and at + 2 < len(body):
            last = ord(body[at + 2])
            at += 2
        at += 1
        if not 0 <= last - first < _RANGE_MAX:
            raise ValueError(f"{where}: the range {chr(first)}-{chr(last)} is empty or too large")
        found.update(map(chr, range(first, last + 1)))
    return frozenset(found)
