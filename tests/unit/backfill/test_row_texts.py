"""What a body's rows are of, without a look at them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog_backfill.files.row_texts import Head, head

NAMES = st.text(st.characters(codec="utf-8"), max_size=6) | st.just(',"events":')
HEADS = st.builds(Head, db=NAMES, table=NAMES, schema_version=st.integers(0, 1 << 40))
IMAGES = st.recursive(
    st.integers() | NAMES,
    lambda inner: st.dictionaries(
        NAMES | st.sampled_from(("a", "db", "events")), inner, max_size=3
    ),
    max_leaves=5,
)


@given(
    told=HEADS, events=st.lists(IMAGES, max_size=3), order=st.permutations(range(4)), more=IMAGES
)
def test_the_head_is_told_whatever_the_order(
    told: Head, events: list[Any], order: list[int], more: Any
) -> None:
    fields = [*msgspec.structs.asdict(told).items(), ("events", events)]
    for shuffled in (fields, [fields[at] for at in order], [("more", more), *fields]):
        assert head(msgspec.json.encode(dict(shuffled))) == told


@pytest.mark.parametrize("wrong", [b"", b"{}", b'{"db":"d","events":[]}', b'{"db":1,"events":[]}'])
def test_what_has_no_head_is_refused(wrong: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        head(wrong)
