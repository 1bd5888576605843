"""DDLs noted: bounded, once each, and the same whatever lives they were noted in."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tidelog.decode.noted import CLAUSES, LISTED, Noted
from tidelog.drainer_control import Ddl, NotedDdls

MESSAGE_BYTES = 1 << 20


def ddl(number: int, query: str = "q", removed: tuple[str, ...] = ()) -> Ddl:
    return Ddl(number, number, "create_table", "app", query, f"why{number % 3}", list(removed))


def total(noted: NotedDdls) -> int:
    return len(noted.ddls) + sum(noted.older.values())


@given(
    st.integers(0, 3 * LISTED),
    st.lists(st.tuples(st.integers(0, 3 * LISTED), st.integers(0, 40)), max_size=6),
)
def test_each_counts_once_however_often_its_life_began_anew(
    count: int, lives: list[tuple[int, int]]
) -> None:
    """A life begins with what was kept and goes back a little, as after a crash."""
    noted, kept, reached = Noted(), NotedDdls(), 0
    for until, back in [*lives, (count, 0)]:
        for number in range(max(0, reached - back), until):
            noted.add(ddl(number))
        reached = max(reached, until)
        kept = noted.merged(kept)
        noted = Noted()
        assert noted.merged(kept) == kept
    assert total(kept) == reached
    newest = range(max(0, reached - LISTED), reached)
    assert [one.commit_ts for one in kept.ddls] == list(newest)


def test_what_is_kept_fits_a_message_whatever_the_texts() -> None:
    noted = Noted()
    for number in range(2 * LISTED):
        noted.add(ddl(number, "\x01" * 100_000, ("\x02" * 100_000,) * 50))
    listed = noted.listed()
    assert len(msgspec.json.encode(listed)) < MESSAGE_BYTES // 2
    assert len(listed.ddls[0].removed) == CLAUSES
