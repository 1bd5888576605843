"""Names of lists and wildcards of rules."""

from __future__ import annotations

import re
from fnmatch import translate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.filter.patterns import ListPattern, Wildcard

PATTERNS = st.text("ab*?", max_size=6)
NAMES = st.text("ab", max_size=6)


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("do_name", "do_name", True),
        ("DO_Name", "do_NAME", True),
        ("do_name", "do_name2", False),
        ("do.name", "do_name", False),
        ("~^do_start.*", "DO_START1", True),
        ("~do", "do_name", False),
        ("~do.*", "redo", False),
        ("~a|b", "b", True),
        ("~a.b", "a\nb", True),
    ],
)
def test_a_name_of_a_list_is_the_whole_name_in_any_case(
    pattern: str, name: str, matches: bool
) -> None:
    assert ListPattern(pattern, "here").matches(name) is matches


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("shard_*", "SHARD_12", True),
        ("shard_?", "shard_12", False),
        ("t[0-4]", "t3", True),
        ("t[0-4]", "t5", False),
        ("t[!0-4]", "T5", True),
        ("t[A-C]", "tb", True),
        ("a.b", "axb", False),
        ("[]*", "", None),
        ("[a", "", None),
        ("[z-a]", "", None),
        ("t" * 257, "", None),
        ("*a" * 20 + "b", "a" * 64, False),
        ("*a" * 20 + "*b", "a" * 63 + "b", True),
    ],
)
def test_a_wildcard(pattern: str, name: str, matches: bool | None) -> None:
    if matches is None:
        with pytest.raises(ValueError, match=r"source.schema: .*"):
            Wildcard(pattern, "source.schema")
    else:
        assert Wildcard(pattern, "here").matches(name) is matches


@given(PATTERNS, NAMES)
def test_wildcards_match_what_the_shell_s_do(pattern: str, name: str) -> None:
    expected = re.fullmatch(translate(pattern), name) is not None
    assert Wildcard(pattern, "here").matches(name) is expected


@given(PATTERNS, PATTERNS)
def test_two_wildcards_overlap_if_a_name_matches_both(one: str, other: str) -> None:
    """A shortest such name is no longer than both together; all of them are tried."""
    first, second = Wildcard(one, "here"), Wildcard(other, "here")
    stars = "".join(letter for letter in one + other if letter != "*")
    names = [""]
    for _ in range(min(len(stars), 9)):
        names += [name + letter for name in names[-(2 ** len(names[-1])) :] for letter in "ab"]
    found = any(first.matches(name) and second.matches(name) for name in names)
    assert first.overlaps(second) is second.overlaps(first)
    assert not found or first.overlaps(second)
    if len(stars) <= 9:
        assert first.overlaps(second) is found


def test_the_longest_wildcards_are_compared() -> None:
    long = Wildcard("*t" * 128, "here")
    assert long.overlaps(Wildcard("t" * 256, "here"))


def test_a_class_overlaps_only_what_it_holds() -> None:
    low, high = Wildcard("t[0-4]", "here"), Wildcard("t[5-9]", "here")
    assert not low.overlaps(high)
    assert low.overlaps(Wildcard("T[4-5]", "here"))
    assert low.overlaps(Wildcard("t[!3]", "here"))
