"""A DDL's text without what only its cluster can mean: placement, TTL, TiFlash, attributes.

Pure. Only clauses of a known shape at a place where they can stand are taken out; a text that
isn't understood stays as it is, and all bytes around a clause do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import zip_longest

import msgspec

from tidelog.decode.sql_tokens import NotTokens, Token, replaced, tokens, words

_FEATURES = frozenset(("placement", "ttl"))
_TABLE, _DATABASE = ("TABLE",), ("DATABASE", "SCHEMA")
_CLAUSE_TOKENS = 8
"""No clause behind another option is longer."""
_UNITS = frozenset(("SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR"))


_NAMED = re.compile("placement|ttl|tiflash|attributes", re.IGNORECASE)
"""Without one of these words nothing is taken out, and no large text need be cut into tokens."""


class Rewritten(msgspec.Struct, frozen=True):
    """`query` is empty where nothing is left to do. `removed`: the clauses, as they stood there."""

    query: str
    removed: tuple[str, ...] = ()


def rewritten(query: str) -> Rewritten:
    """CREATE and ALTER of a table or a database without such clauses; any other text as it is."""
    try:
        statement = _statement(tokens(query)) if _NAMED.search(query) else None
    except NotTokens:
        statement = None
    if statement is None:
        return Rewritten(query)
    segments = _segments(statement)
    found = [_clauses(segment, altered=statement.altered) for segment in segments]
    removed = tuple(query[one[0].start : one[-1].end] for each in found for one in each)
    if not removed:
        return Rewritten(query)
    rests = [_rest(segment, each) for segment, each in zip(segments, found, strict=True)]
    left = [bool(rest) for rest in rests]
    if statement.altered and not any(left):
        return Rewritten("", removed)
    spans = [(one[0].start, one[-1].end) for each in found for one in each]
    first_left = left.index(True) if True in left else len(left)
    for number, comma in enumerate(statement.commas, 1):
        # PARTITION BY is no option: no comma stands in front of it.
        parted = bool(found[number]) and words(rests[number][:2]) == ["PARTITION", "BY"]
        if not left[number] or number <= first_left or parted:
            spans.append((comma.start, comma.end))
    return Rewritten(replaced(query, ((_from_space(query, a), b, "") for a, b in spans)), removed)


def _from_space(query: str, start: int) -> int:
    """The space in front of a clause goes with it."""
    while start and query[start - 1] in " \t\r\n":
        start -= 1
    return start


class _Statement(msgspec.Struct):
    """The part of a statement in which options may stand, and the commas that divide it."""

    options: list[Token]
    altered: bool
    commas: list[Token] = []


def _statement(found: list[Token]) -> _Statement | None:
    """None: not one statement of a kind that has such options."""
    while found and found[-1].word == ";":
        found = found[:-1]
    seen = words(found)
    if len(seen) < 3 or ";" in seen or "SELECT" in seen or any(one.depth < 0 for one in found):
        return None
    altered = seen[0] == "ALTER"
    if altered:
        at = 2 if seen[1] == "IGNORE" else 1
        if seen[at] in _TABLE:
            return _from_name(found, at + 1, altered=True)
        if seen[1] in _DATABASE:
            return _from_name(found, 2, altered=True)
        return None
    if seen[0] != "CREATE":
        return None
    if seen[1] in _DATABASE:
        return _from_name(found, 2, altered=False)
    if "TABLE" not in (seen[1], seen[2], *seen[3:4]):
        return None
    closed = (at for at, one in enumerate(found) if one.word == ")" and one.depth == 0)
    columns = next(closed, None)
    return None if columns is None else _Statement(found[columns + 1 :], altered=False)


def _from_name(found: list[Token], at: int, *, altered: bool) -> _Statement | None:
    """What stands behind `[IF [NOT] EXISTS] [db.]name`. ALTER DATABASE may leave out the name."""
    while at < len(found) and found[at].word in ("IF", "NOT", "EXISTS"):
        at += 1
    nameless = altered and found[1].word in _DATABASE and bool(_clause(found[at:], altered=True))
    if not nameless:
        at += 3 if words(found[at + 1 : at + 2]) == ["."] else 1
    return _Statement(found[at:], altered=altered)


def _segments(statement: _Statement) -> list[list[Token]]:
    """Split at the outer commas: ALTER's specifications, CREATE's options. A comma in front of a
    string divides the labels of a TiFlash replica."""
    segments: list[list[Token]] = [[]]
    for one, behind in zip_longest(statement.options, statement.options[1:]):
        labels = behind is not None and behind.is_string
        if one.word == "," and one.depth == 0 and not labels:
            statement.commas.append(one)
            segments.append([])
        else:
            segments[-1].append(one)
    return segments


def _rest(segment: list[Token], clauses: list[list[Token]]) -> list[Token]:
    gone = {one.start for each in clauses for one in each}
    return [one for one in segment if one.start not in gone]


def _clauses(segment: list[Token], *, altered: bool) -> list[list[Token]]:
    """What goes, in order: lists of adjacent tokens."""
    if altered and words(segment[:1]) == ["PARTITION"] and len(segment) > 2:
        # Of one partition: nothing but the option can stand there.
        behind = _clause(segment[2:], altered=True)
        if behind and len(behind) == len(segment) - 2:
            return [segment]
    return list(_found(segment, altered=altered))


def _found(segment: list[Token], *, altered: bool) -> Iterator[list[Token]]:
    at = 0
    while at < len(segment):
        behind = segment[at : at + _CLAUSE_TOKENS] if at else segment
        clause = _clause(behind, altered=altered and at == 0)
        if not clause:
            at += 1
            continue
        yield clause
        at += len(clause)


def _clause(found: list[Token], *, altered: bool) -> list[Token]:
    """The clause with which these tokens begin, or none. `altered`: a specification of ALTER begins
    here, which may also say what no option of CREATE can."""
    if not found:
        return []
    if found[0].features and found[0].features <= _FEATURES:
        return found[:1]
    length = _placement(found)
    if not length and found[0].depth == 0:
        length = _ttl(found) or (_altered(found) if altered else 0)
    return found[:length]


def _placement(found: list[Token]) -> int:
    """PLACEMENT POLICY [=] name | DEFAULT | SET DEFAULT, of a table, a database or a partition."""
    seen = words(found)
    if seen[:2] != ["PLACEMENT", "POLICY"]:
        return 0
    if seen[2:4] == ["SET", "DEFAULT"]:
        return 4
    return _valued(seen, 2) if len(_value(found, 2)) == 1 else 0


def _ttl(found: list[Token]) -> int:
    """TTL [=] column + INTERVAL n unit; TTL_ENABLE, TTL_JOB_INTERVAL [=] 'text'."""
    seen = words(found)
    if seen[0] in ("TTL_ENABLE", "TTL_JOB_INTERVAL"):
        value = _value(found, 1)
        return _valued(seen, 1) if value and value[0].is_string else 0
    if seen[0] != "TTL":
        return 0
    at = _valued(seen, 1)
    behind = seen[at : at + 4]
    shaped = len(behind) == 4 and behind[:2] == ["+", "INTERVAL"] and behind[3] in _UNITS
    return at + 4 if shaped else 0


def _altered(found: list[Token]) -> int:
    """REMOVE TTL; ATTRIBUTES [=] 'text' | DEFAULT;
    SET [HYPO] TIFLASH REPLICA n [LOCATION LABELS 'text', …]"""
    seen = words(found)
    if seen[:2] == ["REMOVE", "TTL"]:
        return 2
    if seen[0] == "ATTRIBUTES":
        value = _value(found, 1)
        return (
            _valued(seen, 1) if value and (value[0].is_string or value[0].word == "DEFAULT") else 0
        )
    at = 2 if seen[:2] == ["SET", "HYPO"] else 1
    if seen[0] != "SET" or seen[at : at + 2] != ["TIFLASH", "REPLICA"]:
        return 0
    end = at + 3
    if seen[end : end + 2] == ["LOCATION", "LABELS"]:
        end += 3
        while seen[end : end + 1] == [","]:
            end += 2
    return end if end <= len(found) else 0


def _valued(seen: list[str], at: int) -> int:
    """Where `[=] value` ends."""
    return at + (2 if seen[at : at + 1] == ["="] else 1)


def _value(found: list[Token], at: int) -> list[Token]:
    end = _valued(words(found), at)
    return found[end - 1 : end]
