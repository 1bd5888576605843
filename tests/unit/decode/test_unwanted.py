"""What the Drainer tells the Pumps they need not send."""

from __future__ import annotations

from tests.unit.decode.test_filter_decoding import ONE, looping, mark
from tests.unit.decode.upstream import Upstream
from tidelog.decode.met import IDS_MAX
from tidelog.filter.settings import TableName
from tidelog.filter.unwanted import Unwanted

IGNORED = (TableName("app", "~h.*"),)


def test_a_filtered_table_is_named_once_it_was_met() -> None:
    up = Upstream(ignore_table=IGNORED)
    up.create("app", "t")
    up.create("app", "h1")
    assert up.decoder.unwanted == Unwanted()
    up.commit(("app.h1", "insert", ONE), ("app.t", "insert", ONE))
    assert up.decoder.unwanted == Unwanted((up.id_of("app.h1"),), up.version)


def test_it_holds_up_to_the_newest_schema_version_that_was_decided() -> None:
    up = Upstream(ignore_table=IGNORED)
    up.create("app", "h1")
    up.commit(("app.h1", "insert", ONE))
    up.create("app", "h2")
    assert up.decoder.unwanted.upto_version == up.version - 1, "h1 may be called t by now"
    up.commit(("app.h1", "insert", ONE))
    assert up.decoder.unwanted.upto_version == up.version


def test_a_table_that_ever_had_a_published_name_is_not_named() -> None:
    up = Upstream(ignore_table=IGNORED)
    up.create("app", "t")
    up.rename("app", ("t", "h1"))
    assert up.commit(("app.h1", "insert", ONE)) is None
    assert up.decoder.unwanted.table_ids == ()


def test_a_rename_into_the_feed_that_the_history_knows_takes_the_name_back() -> None:
    up = Upstream(ignore_table=IGNORED)
    up.create("app", "h1")
    up.commit(("app.h1", "insert", ONE))
    named = [len(up.decoder.unwanted.table_ids)]
    up.rename_job("app", "h1", "t")
    up.decoder.schema_changed()
    named.append(len(up.decoder.unwanted.table_ids))
    assert named == [1, 0]


def test_marks_go_on_coming() -> None:
    up = looping()
    up.commit(mark(8))
    assert up.decoder.unwanted == Unwanted()


def test_of_many_tables_those_met_last_are_named() -> None:
    up = Upstream(ignore_table=IGNORED)
    for number in range(IDS_MAX + 5):
        up.create("app", f"h{number}")
    for number in range(IDS_MAX + 5):
        up.commit((f"app.h{number}", "insert", ONE))
    named = up.decoder.unwanted.table_ids
    assert len(named) == IDS_MAX
    assert up.id_of(f"app.h{IDS_MAX + 4}") in named
    assert up.id_of("app.h0") not in named
