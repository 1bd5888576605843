"""What the console knows: facts in, a Snapshot out. Pure, bounded whatever the cluster does."""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.bulk.control import ENDED, JobStatus
from tidelog.drainer_control import NotedDdls
from tidelog.messages import APPLIER, DRAINER, OFFLINE, PUMP, Nodes, NodeStatus
from tidelog.node_form import is_unreachable, node_forms
from tidelog.node_notes import notes
from tidelog.timestamps import physical_ms
from tidelog_registry.console.behind import Behind, measure
from tidelog_registry.console.feed_view import FeedView
from tidelog_registry.console.heard import BriefMarker
from tidelog_registry.console.lags import STEP_MS, Words
from tidelog_registry.console.rates import NodeRates
from tidelog_registry.console.shown import DdlShown, History, JobShown, NodeShown, Snapshot

NODES = 200
FEEDS = 16
JOBS = 12
SAYS_CHARS = 600
FOLLOW = "follow"
ORDER = {PUMP: 0, DRAINER: 1, APPLIER: 2}


class Model:
    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._found = Nodes([])
        self._rates = NodeRates()
        self._per_s: dict[tuple[str, str], dict[str, float]] = {}
        self._words = Words()
        self._behind = Behind()
        self._feeds: dict[str, FeedView] = {}
        self._more_feeds = 0
        self._jobs: dict[tuple[str, str], JobStatus] = {}
        self._largest_ts = 0

    @property
    def feeds(self) -> Sequence[str]:
        return list(self._feeds)

    # Facts

    def looked(self, found: Nodes, now_ms: int) -> None:
        """What the registry knows, once a second."""
        self._found = found
        marks = [max(n.highTS, n.resolvedTS) for n in found.nodes]
        self._largest_ts = max([self._largest_ts, *marks])
        clock_ms = self._clock_ms(now_ms)
        self._words.take(found, clock_ms, by_wall=found.oracle != FOLLOW)
        keys = {(n.kind, n.nodeId) for n in found.nodes}
        self._per_s = {
            (n.kind, n.nodeId): self._rates.take(n, physical_ms(n.updateTS)) for n in found.nodes
        }
        self._rates.keep(keys)
        self._choose_feeds(found)
        heard = {name: feed.published for name, feed in self._feeds.items()}
        self._behind = measure(found, self._words, heard, clock_ms)
        for name, feed in self._feeds.items():
            feed.take(self._behind.feeds[name], now_ms)

    def _clock_ms(self, now_ms: int) -> int:
        """What time it is by whoever gives the timestamps; of a recording it may be long ago."""
        return physical_ms(self._largest_ts) if self._found.oracle == FOLLOW else now_ms

    def _choose_feeds(self, found: Nodes) -> None:
        """Those with nodes or registered readers, by name, FEEDS at most."""
        there = {n.feed for n in found.nodes if n.feed and n.state != OFFLINE}
        there |= {c.feed for c in found.consumers} | set(found.feeds)
        names = sorted(name for name in there if "=" not in name)
        self._more_feeds = max(0, len(names) - FEEDS)
        self._feeds = {n: self._feeds.get(n) or FeedView(n) for n in names[:FEEDS]}

    def marker(self, feed: str, told: BriefMarker, now_ms: int) -> None:
        if view := self._feeds.get(feed):
            view.marker(told, self._clock_ms(now_ms), now_ms)

    def watermark(self, feed: str, ts: int, now_ms: int) -> None:
        if view := self._feeds.get(feed):
            view.reached(ts, self._clock_ms(now_ms))

    def ddl(self, feed: str, told: DdlShown) -> None:
        if view := self._feeds.get(feed):
            view.ddl(told)

    def noted(self, feed: str, told: NotedDdls) -> None:
        if view := self._feeds.get(feed):
            view.noted(told)

    def job(self, node: str, told: JobStatus) -> None:
        """The newest JOBS; those that have ended go first."""
        self._jobs[node, told.id] = told
        if len(self._jobs) > JOBS:
            del self._jobs[min(self._jobs, key=self._weight)]

    def _weight(self, key: tuple[str, str]) -> tuple[bool, int]:
        job = self._jobs[key]
        return job.state not in ENDED, job.submitted

    # Answers

    def snapshot(self, now_ms: int, *, bus: bool) -> Snapshot:
        found = self._found
        nodes = [self._node(node, now_ms) for node in found.nodes if self._is_shown(node)]
        nodes.sort(key=lambda n: (n.state == OFFLINE, ORDER.get(n.kind, 9), n.feed, n.id))
        clock_ms = self._clock_ms(now_ms)
        errors = [(n.id, text) for n in nodes for what, text in n.says if what == "error"]
        return Snapshot(
            now_ms,
            self._cluster,
            bus,
            found.settled,
            notes(node_forms(found))[:NODES],
            errors,
            nodes[:NODES],
            max(0, len(nodes) - NODES),
            [feed.shown(found, clock_ms, now_ms) for feed in self._feeds.values()],
            self._more_feeds,
            [self._job(node, job) for (node, _), job in reversed(self._jobs.items())],
        )

    def history(self, now_ms: int) -> History:
        return History(STEP_MS, {n: feed.series.past(now_ms) for n, feed in self._feeds.items()})

    def _is_shown(self, node: NodeStatus) -> bool:
        """Who was let go for good is not, who is only away is."""
        return node.state != OFFLINE or node.order.action != "offline"

    def _node(self, node: NodeStatus, now_ms: int) -> NodeShown:
        role = "" if node.kind == PUMP else "standby" if "standby" in node.detail else "leads"
        return NodeShown(
            node.nodeId,
            node.kind,
            node.state,
            is_unreachable(node),
            role,
            node.feed,
            node.host,
            str(node.resolvedTS),
            self._behind.nodes.get((node.kind, node.nodeId)),
            max(0, now_ms - physical_ms(node.updateTS)) if node.updateTS else None,
            node.open,
            self._per_s.get((node.kind, node.nodeId), {}),
            [(what, said[:SAYS_CHARS]) for what, said in sorted(node.detail.items())],
        )

    @staticmethod
    def _job(node: str, job: JobStatus) -> JobShown:
        at = job.progress
        if at is None:
            rows = job.report.rows if job.report is not None else 0
            return JobShown(job.id, node, job.kind, job.state, rows=rows, error=job.error)
        return JobShown(
            job.id,
            node,
            job.kind,
            job.state,
            at.stage,
            at.done,
            at.total,
            at.unit,
            at.rows,
            job.error,
        )
