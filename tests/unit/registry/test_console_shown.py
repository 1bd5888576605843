"""What the page is told, from what the registry knows and hears."""

from __future__ import annotations

import tracemalloc

import msgspec
import pytest

from tidelog import changes
from tidelog.bulk.control import JobStatus
from tidelog.bulk.told import Progress
from tidelog.changes import DdlMessage, MarkedTxn, Marker, Watermark
from tidelog.drainer_control import Ddl, NotedDdls
from tidelog.messages import (
    APPLIER,
    DRAINER,
    JOINING,
    OFFLINE,
    ONLINE,
    PAUSED,
    PUMP,
    Consumer,
    Nodes,
    NodeStatus,
    Order,
)
from tidelog.timestamps import compose
from tidelog_registry.console import heard
from tidelog_registry.console.feed_view import DDLS
from tidelog_registry.console.lags import PATIENCE_MS, SPAN_MS, STEP_MS
from tidelog_registry.console.model import FEEDS, JOBS, NODES, Model
from tidelog_registry.console.rates import LISTED, TABLES, WINDOW_S, Recent, TableRates
from tidelog_registry.console.shown import FeedShown, Lags, NodeShown, Snapshot

NOW = 1_800_000_000_000


def node(
    name: str, kind: str, behind_ms: int = 0, told_ms: int = NOW, **more: object
) -> NodeStatus:
    """What was told at `told_ms` and was so far behind then."""
    status = NodeStatus(
        name,
        state=ONLINE,
        isAlive=True,
        kind=kind,
        feed="" if kind == PUMP else "main",
        resolvedTS=compose(told_ms - behind_ms),
        updateTS=compose(told_ms),
    )
    return msgspec.structs.replace(status, **more)


def cluster(*more: NodeStatus, told_ms: int = NOW) -> Nodes:
    return Nodes(
        [
            node("p1", PUMP, 10, told_ms),
            node("p2", PUMP, 40, told_ms),
            node("d", DRAINER, 60, told_ms),
            node("a", APPLIER, 900, told_ms),
            *more,
        ]
    )


def shown(found: Nodes, now_ms: int = NOW) -> Snapshot:
    model = Model("c")
    model.looked(found, now_ms)
    return model.snapshot(now_ms, bus=True)


def main_feed(model: Model, now_ms: int = NOW) -> FeedShown:
    return model.snapshot(now_ms, bus=True).feeds[0]


def marker(*txns: tuple[int, dict[str, int]]) -> heard.BriefMarker:
    marked = [MarkedTxn(ts, ts - 1, sum(t.values()), t) for ts, t in txns]
    told = heard.marker(msgspec.json.encode(Marker("a", 1, 0, marked)))
    assert told is not None
    return told


def test_the_three_lags_are_taken_when_they_were_told() -> None:
    told = cluster(told_ms=NOW - 1900)
    assert shown(told).feeds[0].lag_ms == Lags(40, 60, 900)


def test_a_lag_grows_with_the_clock_once_nobody_speaks_any_more() -> None:
    told = cluster(told_ms=NOW - PATIENCE_MS - 7000)
    assert shown(told).feeds[0].lag_ms == Lags(7040, 7060, 7900)


def test_what_was_passed_was_reached_though_nobody_has_told_so_yet() -> None:
    """The Pump's last word is older than the Drainer's."""
    told = Nodes([node("p", PUMP, 30, NOW - 1500), node("d", DRAINER, 50), node("a", APPLIER, 20)])
    assert shown(told).feeds[0].lag_ms == Lags(20, 20, 20)


def lags_of(snapshot: Snapshot) -> dict[str, int | None]:
    return {n.id: n.lag_ms for n in snapshot.nodes}


def test_a_nodes_lag_is_the_one_of_the_chart_that_it_is_a_part_of() -> None:
    """Whenever who spoke last: it was taken by another base once, and nobody could compare them."""
    again = node("a2", APPLIER, 300)
    told = Nodes(
        [
            node("p1", PUMP, 10, NOW - 1900),
            node("p2", PUMP, 400, NOW - 200),
            node("d", DRAINER, 900, NOW - 1000),
            node("a", APPLIER, 950, NOW - 100),
            again,
        ]
    )
    model = Model("c")
    model.looked(told, NOW)
    model.watermark("main", compose(NOW - 700), NOW - 300)
    model.looked(told, NOW)
    snapshot = model.snapshot(NOW, bus=True)
    assert lags_of(snapshot) == {"p1": 300, "p2": 300, "d": 300, "a": 950, "a2": 300}
    assert snapshot.feeds[0].lag_ms == Lags(300, 300, 950)
    past = model.history(NOW).feeds["main"]
    assert (past.resolved[-1], past.published[-1], past.applied[-1]) == (300, 300, 950)


def test_who_reads_is_not_less_behind_than_who_it_reads_from() -> None:
    """Its word is older, and by then that one stood still."""
    told = Nodes(
        [
            node("p", PUMP, 800),
            node("d", DRAINER, 700, NOW - 300),
            node("a", APPLIER, 20, NOW - 1500),
        ]
    )
    assert shown(told).feeds[0].lag_ms == Lags(800, 800, 800)
    assert set(lags_of(shown(told)).values()) == {800}


def test_a_copy_of_a_later_moment_hides_nobodys_lag() -> None:
    """A downstream that begins as a copy, of another feed too, says nothing of who publishes."""
    hours = 5 * 3_600_000
    told = Nodes(
        [
            *(node("p1", PUMP, 10), node("p2", PUMP, hours)),
            *(node("d", DRAINER, hours, feed="main"), node("a", APPLIER, 60_000, feed="main")),
            *(node("d2", DRAINER, hours, feed="two"), node("b", APPLIER, 1000, feed="two")),
        ],
        settled=True,
    )
    snapshot = shown(told)
    by_feed = {feed.name: feed.lag_ms for feed in snapshot.feeds}
    assert by_feed == {"main": Lags(hours, hours, 60_000), "two": Lags(hours, hours, 1000)}
    assert lags_of(snapshot) == {
        "p1": 10,
        "p2": hours,
        "d": hours,
        "a": 60_000,
        "d2": hours,
        "b": 1000,
    }


def test_pumps_are_as_far_behind_in_every_feed() -> None:
    """What one feed has published, every Pump had resolved."""
    told = cluster(
        node("d2", DRAINER, 5, feed="audit"), node("a2", APPLIER, 70, feed="audit"), told_ms=NOW
    )
    snapshot = shown(told)
    assert [f.lag_ms for f in snapshot.feeds] == [Lags(5, 5, 70), Lags(5, 60, 900)]
    assert lags_of(snapshot)["p1"] == lags_of(snapshot)["p2"] == 5


def test_who_has_no_position_that_counts_has_no_lag() -> None:
    told = cluster(
        node("p3", PUMP, state=JOINING, resolvedTS=0),
        node("p4", PUMP, 7000, state=OFFLINE),
        node("d2", DRAINER, 90, detail={"standby": "d leads"}),
        node("a2", APPLIER, 950, detail={"standby": "a leads"}, standbyOf="a"),
    )
    lags = lags_of(shown(told))
    assert {name for name, lag in lags.items() if lag is None} == {"p3", "p4", "d2", "a2"}


def test_a_pump_that_is_silent_holds_resolved_back_by_as_much_as_it_shows() -> None:
    told = Nodes([node("p1", PUMP, 10), node("p2", PUMP, 10, NOW - 60_000, isAlive=False)])
    snapshot = shown(msgspec.structs.replace(told, feeds=["main"]))
    assert lags_of(snapshot)["p2"] == 60_010 - PATIENCE_MS
    assert snapshot.feeds[0].lag_ms == Lags(60_010 - PATIENCE_MS, None, None)


def test_a_watermark_tells_sooner_than_a_heartbeat() -> None:
    model = Model("c")
    model.looked(cluster(told_ms=NOW - 3000), NOW)
    body = msgspec.json.encode(Watermark(compose(NOW - 5), 0))
    ts = heard.watermark(body)
    assert ts is not None
    model.watermark("main", ts, NOW)
    model.looked(cluster(told_ms=NOW - 3000), NOW)
    assert main_feed(model).lag_ms == Lags(5, 5, 900)


def test_of_a_recording_the_clock_is_the_largest_timestamp_known() -> None:
    then = NOW - 90 * 86_400_000
    found = msgspec.structs.replace(cluster(told_ms=then), oracle="follow")
    high = msgspec.structs.replace(found.nodes[0], highTS=compose(then))
    told = msgspec.structs.replace(found, nodes=[high, *found.nodes[1:]])
    assert shown(told).feeds[0].lag_ms == Lags(40, 60, 900)


def test_a_joining_pump_holds_no_position_back_and_is_shown_as_joining() -> None:
    joins = node("p3", PUMP, state=JOINING, resolvedTS=0)
    snapshot = shown(cluster(joins))
    assert snapshot.feeds[0].lag_ms.resolved == 40
    assert _of(snapshot, "p3").state == JOINING


def test_who_is_unreachable_or_paused_says_so_and_what_to_do_about_it() -> None:
    gone = node("p3", PUMP, isAlive=False)
    held = node("p4", PUMP, state=PAUSED)
    snapshot = shown(cluster(gone, held))
    assert _of(snapshot, "p3").unreachable
    assert not _of(snapshot, "p4").unreachable
    assert any("`tidelog offline p3 --accept-loss`" in note for note in snapshot.notes)
    assert any("`tidelog resume p4`" in note for note in snapshot.notes)


def test_a_standby_is_a_standby_and_an_error_is_one() -> None:
    stands = node("d2", DRAINER, detail={"standby": "d leads"}, resolvedTS=0)
    stopped = node("a2", APPLIER, detail={"error": "the downstream refuses"})
    snapshot = shown(cluster(stands, stopped))
    assert (_of(snapshot, "d2").role, _of(snapshot, "d").role) == ("standby", "leads")
    assert snapshot.errors == [("a2", "the downstream refuses")]


def test_who_was_let_go_for_good_is_not_shown_who_is_away_is() -> None:
    let_go = node("p3", PUMP, state=OFFLINE, order=Order("offline", 1))
    away = node("a2", APPLIER, state=OFFLINE)
    names = [n.id for n in shown(cluster(let_go, away)).nodes]
    assert names == ["p1", "p2", "d", "a", "a2"]


def test_a_batch_that_is_tried_again_counts_once() -> None:
    model = Model("c")
    model.looked(cluster(), NOW)
    for _ in range(2):
        model.marker("main", marker((5, {"shop.a=20b": 3}), (6, {"shop.c": 1})), NOW)
    feed = main_feed(model, NOW + 1000)
    assert [(t.name, t.rows) for t in feed.tables] == [("shop.a b", 3), ("shop.c", 1)]
    assert (feed.txns_per_s, feed.rows_per_s) == (0.2, 0.4)


def test_tables_beyond_the_bound_are_one_sum_and_nothing_is_lost() -> None:
    rates = TableRates()
    for number in range(3 * TABLES):
        rates.add(f"d.t{number}", 2, 0)
    listed, others = rates.listed(1)
    assert len(listed) == LISTED
    assert others is not None
    assert others.at_least
    assert sum(t.rows for t in listed) + others.rows == 2 * 3 * TABLES
    assert len(rates._tables) == TABLES


def test_a_busy_table_takes_the_place_of_one_that_is_idle() -> None:
    rates = TableRates()
    for number in range(TABLES):
        rates.add(f"d.t{number}", 1, 0)
    rates.add("d.new", 7, 60)
    listed, others = rates.listed(61)
    assert listed[0].name == "d.new"
    assert others is not None
    assert sum(t.rows for t in listed) + others.rows == TABLES + 7


def test_a_rate_is_of_the_whole_seconds_of_the_window_and_of_no_others() -> None:
    recent = Recent()
    for second in range(100, 130):
        recent.add(3, second)
        recent.add(1, second)
    assert recent.per_s(129) == 4.0  # the present second, which has only begun, left out
    assert recent.per_s(130) == 4.0
    assert recent.per_s(134) == 4.0 * (WINDOW_S - 4) / WINDOW_S
    assert recent.per_s(129 + 2 * WINDOW_S) == 0
    recent.add(5, 128)  # a clock that went back: it counts, with the newest second
    assert recent.per_s(130) == 4.0 + 5 / WINDOW_S
    recent.add(20, 1000)
    assert recent.per_s(1001) == 20 / WINDOW_S
    assert recent.total == 30 * 4 + 25


def test_what_is_known_of_a_table_that_was_written_to_for_long_is_small() -> None:
    """There may be TABLES of them for each feed, and new ones come as long as DDLs do."""
    rates = TableRates()
    tracemalloc.start()
    try:
        for number in range(TABLES):
            for second in range(3 * WINDOW_S):
                rates.add(f"d.t{number}", 5, second)
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size < 512 * TABLES


def test_rates_of_nodes_come_from_their_counts_and_begin_anew_with_them() -> None:
    model = Model("c")
    for second, count in ((0, 100), (2, 300), (4, 500), (6, 20)):
        at = NOW + 1000 * second
        model.looked(Nodes([node("p", PUMP, told_ms=at, counts={"binlogs": count})]), at)
        per_s = _of(model.snapshot(at, bus=True), "p").per_s
        assert per_s == ({"binlogs": 100.0} if second in (2, 4) else {})


def test_what_was_left_out_is_told_by_reason_the_most_first() -> None:
    counts = {"duplicates": 2, "dropped.filter": 3, "dropped.at_pump": 40, "rows": 1}
    feed = shown(Nodes([node("d", DRAINER, counts=counts)])).feeds[0]
    assert list(feed.left_out.items()) == [("at_pump", 40), ("filter", 3)]
    assert feed.duplicates == 2


def test_the_last_ddls_are_told_with_what_became_of_them() -> None:
    model = Model("c")
    model.looked(cluster(), NOW)
    for ts in range(1, DDLS + 20):
        body = msgspec.json.encode(DdlMessage(ts, f"q{ts}", "add_column", "shop", ts))
        told = heard.ddl("changes.main.ddl.shop.t", body, {})
        assert told is not None
        model.ddl("main", told)
    skipped = Ddl(DDLS + 30, 1, "flashback", "shop", "x" * 9000, "ddl_policy")
    model.noted("main", NotedDdls([skipped], {"placement": 4}))
    feed = main_feed(model)
    assert len(feed.ddls) == DDLS
    assert [d.why for d in feed.ddls[:2]] == ["ddl_policy", ""]
    assert len(feed.ddls[0].query) < 500
    assert feed.older_ddls == {"placement": 4}


@pytest.mark.parametrize("headers", [{}, {changes.H_FRAGMENT: "0/3"}])
def test_a_ddl_in_another_form_is_told_by_its_subject(headers: dict[str, str]) -> None:
    told = heard.ddl("changes.main.ddl.s=20p.t", b"{}..", headers | {changes.H_FIRST_TS: "77"})
    assert told is not None
    assert (told.commit_ts, told.db, told.query) == ("77", "s p", "a change of t")
    assert heard.ddl("changes.main.ddl.s.t", b"..", {changes.H_FRAGMENT: "1/3"}) is None


def test_garbage_and_private_replays_are_passed_over() -> None:
    assert heard.marker(b"\xff") is None
    assert heard.watermark(b"[]") is None
    assert heard.feed_of("changes.main=reader.txn") == ""


def test_applications_are_told_apart_from_our_own_nodes() -> None:
    found = msgspec.structs.replace(
        cluster(),
        consumers=[
            Consumer("drainer", "main", 1),
            Consumer("a", "main", 1),
            Consumer("cache", "main", compose(NOW - 70)),
        ],
    )
    consumers = shown(found).feeds[0].consumers
    assert [(c.name, c.lag_ms) for c in consumers] == [("cache", 70)]


def test_everything_is_bounded_and_what_is_not_shown_is_counted() -> None:
    pumps = [node(f"p{number}", PUMP) for number in range(NODES + 50)]
    drainers = [node(f"d{n}", DRAINER, feed=f"f{n:03}") for n in range(FEEDS + 9)]
    model = Model("c")
    for at in range(NOW, NOW + 2 * SPAN_MS, STEP_MS):
        model.looked(Nodes([*pumps[:2], *drainers]), at)
    model.looked(Nodes([*pumps, *drainers]), NOW + 2 * SPAN_MS)
    for number in range(3 * JOBS):
        model.job("b", JobStatus(f"j{number}", "replay", "done", {}, submitted=number))
    snapshot = model.snapshot(NOW + 2 * SPAN_MS, bus=True)
    assert (len(snapshot.nodes), snapshot.more_nodes) == (NODES, 50 + FEEDS + 9)
    assert (len(snapshot.feeds), snapshot.more_feeds) == (FEEDS, 9)
    assert [job.id for job in snapshot.jobs[:2]] == [f"j{3 * JOBS - 1}", f"j{3 * JOBS - 2}"]
    assert len(snapshot.jobs) == JOBS
    history = model.history(NOW + 2 * SPAN_MS)
    assert {len(past.at) for past in history.feeds.values()} == {SPAN_MS // STEP_MS + 1}


def test_a_running_job_stays_while_ended_ones_come() -> None:
    model = Model("c")
    running = JobStatus("r", "replay", "running", {}, progress=Progress("reading", 1, 9, "bytes"))
    model.job("b", running)
    for number in range(3 * JOBS):
        model.job("b", JobStatus(f"j{number}", "replay", "done", {}, submitted=1 + number))
    jobs = {job.id: job for job in model.snapshot(NOW, bus=True).jobs}
    assert (jobs["r"].done, jobs["r"].total, jobs["r"].stage) == (1, 9, "reading")


def _of(snapshot: Snapshot, name: str) -> NodeShown:
    return next(n for n in snapshot.nodes if n.id == name)
