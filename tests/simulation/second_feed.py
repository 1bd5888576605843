"""A second feed of the same cluster: a Drainer, a reader, perhaps an Applier, all of its own.

It leaves out some kinds of row events. What it has to hold is what the first feed held, without
those: the first one is compared with the source.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tests.simulation.contents import name_differences
from tests.simulation.plan import SecondFeed
from tidelog.filter.settings import BinlogFilterRule, TableMigrateRule, TableWildcards
from tidelog.sim import Node, World
from tidelog.sim.checker import Findings, StreamChecker
from tidelog.sim.downstream import SimDatabase
from tidelog.workload.source import Contents
from tidelog_drainer.publish.beginning import FEED_FILE

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster

SECOND = "second"
URL = "sim:second"
OPS = {"insert": "c", "update": "u", "delete": "d"}


class Second:
    def __init__(
        self, world: World, plan: SecondFeed, node: Callable[[str], Node], faults: Any
    ) -> None:
        self.plan = plan
        self.findings = Findings()
        self.checker = StreamChecker(self.findings)
        self.database = SimDatabase(world.random("database/second"), world.trace, faults)
        self.drainer = node(f"drainer-{SECOND}")
        self.auditor = node(f"auditor-{SECOND}")
        self.applier = node(f"applier-{SECOND}") if plan.applied else None

    @property
    def nodes(self) -> list[Node]:
        return [self.drainer, self.auditor, *([self.applier] if self.applier else [])]

    @property
    def left_out(self) -> frozenset[str]:
        """Ops of the change stream."""
        return frozenset(OPS[kind] for kind in self.plan.ignores)

    def filters(self) -> dict[str, Any]:
        """Of its Drainer's configuration."""
        if not self.plan.ignores:
            return {}
        rule = TableMigrateRule(TableWildcards("*", "*"), binlog_filter_rule=("left-out",))
        return {
            "table_migrate_rule": (rule,),
            "binlog_filter_rule": {"left-out": BinlogFilterRule(self.plan.ignores)},
        }

    def begun(self) -> bool:
        return self.drainer.disk.holds(FEED_FILE)

    def read_ts(self) -> int:
        """Up to where its readers have it for good."""
        if self.applier is None:
            return self.checker.position
        checkpoint = self.database.checkpoint
        return min(self.checker.position, checkpoint.commit_ts if checkpoint is not None else 0)

    def judge(self, first: StreamChecker, source: Contents, *, whole: bool) -> None:
        """Compare with the first feed, and its downstream with the source."""
        ours, theirs = fresh_ddls(self.checker), fresh_ddls(first)
        for commit_ts, wanted in first.seen.items():
            found = self.checker.seen.get(commit_ts)
            if found is None:
                if (wanted.kept.rows or wanted.ddls) and (
                    whole or commit_ts <= self.checker.position
                ):
                    self.findings.loss.append(f"{commit_ts} is not in the stream")
            elif (found.kept, ours[commit_ts]) != (wanted.kept, theirs[commit_ts]):
                self.findings.other.append(f"{commit_ts} is {found}, not {wanted}")
        for commit_ts in self.checker.seen.keys() - first.seen.keys():
            if whole:
                self.findings.other.append(f"{commit_ts} is not in the first feed")
        if whole and self.applier is not None:
            name_differences(self.findings, source, self.database.tables, self._held)

    def report(self, findings: Findings) -> None:
        """Add what was found here."""
        for kind, lines in findings.kinds().items():
            lines.extend(f"{SECOND} feed: {line}" for line in self.findings.kinds()[kind])

    def _held(self, db: str, table: str) -> list[dict[str, object]] | None:
        return self.database.rows(db, table) if (db, table) in self.database.tables else None


def fresh_ddls(checker: StreamChecker) -> dict[int, frozenset[int]]:
    """By commit_ts, the schema versions of DDLs that were not met before: each feed may bring some
    of them again, wherever it needs them, after its stream was lost (ADR 5)."""
    met: set[int] = set()
    found: dict[int, frozenset[int]] = {}
    for commit_ts, seen in sorted(checker.seen.items()):
        found[commit_ts] = seen.versions - met
        met |= seen.versions
    return found


def started(cluster: Cluster, second: Second) -> None:
    """Start its nodes."""
    cluster.start_drainer(second.drainer, SECOND, **second.filters())
    cluster.start_auditor(second.auditor, SECOND, second.checker)
    if second.applier is not None:
        cluster.start_applier(second.applier, SECOND, URL)
