"""The table of identities against what is written down in `tests.security_cells`."""

from __future__ import annotations

import inspect
import sys
from types import FrameType
from typing import Any

import pytest

from tests import security_cells
from tests.security_cells import CELLS, CLUSTER, Cell
from tidelog import subjects
from tidelog.security.identities import IDENTITIES, permissions
from tidelog.security.permissions import matches

INBOX = "_INBOX_mine"
NO_SUBJECTS = {"is_cluster_name", "is_replay", "escape", "unescape", "feed_label"}


def test_the_identities_are_those_that_the_cells_are_about() -> None:
    assert list(IDENTITIES) == security_cells.IDENTITIES


@pytest.mark.parametrize("cell", CELLS, ids=[cell.subject for cell in CELLS])
def test_the_table_allows_what_is_written_down_and_no_more(cell: Cell) -> None:
    granted = {name: permissions(name, CLUSTER, INBOX) for name in IDENTITIES}
    assert {n for n in IDENTITIES if granted[n].may_publish(cell.subject)} == cell.publish
    assert {n for n in IDENTITIES if granted[n].may_subscribe(cell.subject)} == cell.subscribe


def test_every_subject_stream_and_bucket_of_the_code_has_its_cells() -> None:
    made = {name for name, _ in inspect.getmembers(subjects, inspect.isfunction)} - NO_SUBJECTS
    called: set[str] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename == subjects.__file__:
            called.add(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        for cells in ("control", "streams", "jetstream", "nobodys"):
            list(getattr(security_cells, cells)())
        subjects.replay_feed("main", "r")
    finally:
        sys.setprofile(None)
    assert made - called == set()


@pytest.mark.parametrize("identity", IDENTITIES)
def test_answers_come_where_nobody_else_listens(identity: str) -> None:
    granted = permissions(identity, CLUSTER, INBOX)
    assert granted.may_subscribe(f"{INBOX}.abc.1")
    assert not granted.may_subscribe("_INBOX_others.abc.1")
    assert not granted.may_publish(f"{INBOX}.abc.1")


def test_only_who_serves_something_may_answer_what_it_was_asked() -> None:
    answers = {name for name in IDENTITIES if permissions(name, CLUSTER, INBOX).answers}
    assert answers == {"registry", "pump", "drainer", "applier", "backfill", "writer"}


def test_another_cluster_is_another_table() -> None:
    granted = permissions("pump", "east", INBOX)
    assert granted.may_publish(subjects.registry("east", "register"))
    assert not granted.may_publish(subjects.registry(CLUSTER, "register"))


@pytest.mark.parametrize(
    ("pattern", "subject", "expected"),
    [
        ("a.b", "a.b", True),
        ("a.b", "a.b.c", False),
        ("a.*", "a.b", True),
        ("a.*", "a", False),
        ("a.*", "a.>", False),
        ("a.*", "a.*", True),
        ("a.>", "a.b.c", True),
        ("a.>", "a", False),
        ("a.>", "a.>", True),
        ("a.b.>", "a.>", False),
        (">", "a", True),
        ("*.b", "a.b", True),
    ],
)
def test_a_pattern_matches_as_the_server_has_it(pattern: str, subject: str, expected: bool) -> None:
    assert matches(pattern, subject) is expected
