"""By which name a replay is read: what its reader is called must fit into a subject."""

from __future__ import annotations

import pytest

from tidelog import subjects
from tidelog.errors import BadInput
from tidelog.rewind import feed_name


def test_a_name_that_fits_names_the_replay() -> None:
    assert feed_name("shop", "applier-1") == subjects.replay_feed("shop", "applier-1")


@pytest.mark.parametrize("reader", ["", "a.b", "a b", "x" * 300])
def test_one_that_does_not_is_refused_by_name(reader: str) -> None:
    with pytest.raises(BadInput, match="can't be called"):
        feed_name("shop", reader)
