"""Mistakes that slow tests plant in the sources fit these sources. (Whoever changes a line
that one of them quotes learns it here, not when all of it runs.)"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.mutation import Mutation
from tests.crash.mutations import MUTATIONS
from tests.planted.bug import Bug
from tests.planted.bugs import BUGS

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_the_crash_explorer_s_fit(mutation: Mutation) -> None:
    mutation.apply()  # a LookupError says which one does not


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_all_others_fit(bug: Bug) -> None:
    for edit in bug.edits:
        assert (ROOT / edit.path).read_text().count(edit.old) == 1, edit.path
