"""`make compiled` runs these tests on the wheel's codecs: they are then really compiled."""

from __future__ import annotations

import os

from tidelog.downstreams import row_text
from tidelog.rows import table_codec


def test_the_codecs_under_test_are_the_ones_asked_for() -> None:
    wanted = ".so" if os.environ.get("TIDELOG_TEST_COMPILED") else ".py"
    for module in (table_codec, row_text):
        assert str(module.__file__).endswith(wanted)
