"""The k-way merge of the Pumps' transactions (I3). Pure.

Each source delivers its transactions in rising commit_ts and says up to where it has delivered
everything (`resolved`). What lies at or below the smallest `resolved` can be merged: nothing
earlier can still come.
"""

from __future__ import annotations

from bisect import bisect_right
from operator import itemgetter

from tidelog.errors import Stopped
from tidelog_drainer.merge.spool import Spooled

Txn = tuple[int, int, bytes | Spooled]
"""commit_ts, start_ts, payload (binlog.Binlog): of a large one, the file that holds it."""

_commit_ts = itemgetter(0)


class Disorder(Stopped):
    """A source delivered a commit_ts at or below an earlier one of its own."""

    default_hint = "its index is wrong: stop that Pump, remove its index directory, start it again"

    def __init__(self, node: str, commit_ts: int, last: int) -> None:
        super().__init__(f"{node} delivered commit_ts {commit_ts} after {last}")
        self.commit_ts = commit_ts


class Overtaken(Stopped):
    """A Pump that became a source in mid-merge holds what was passed without it."""

    default_hint = (
        "fill the feed again from below it; or take that Pump offline, accepting its loss, and the"
        " merge goes on without it"
    )

    def __init__(self, node: str, commit_ts: int, emitted: int) -> None:
        super().__init__(f"{node} has commit_ts {commit_ts}, and {emitted} was passed without it")
        self.commit_ts = commit_ts


class SameCommitTs(Stopped):
    """Two transactions have one commit_ts: nobody can tell which comes first, or belongs here."""

    default_hint = (
        "two clusters write to these Pumps, or the wrong oracle gives them timestamps: end that,"
        " then take the Pump that holds the wrong one offline, accepting its loss, and the merge"
        " goes on with the other; or begin a new feed above it"
    )

    def __init__(self, commit_ts: int, starts: tuple[int, int], nodes: tuple[str, str]) -> None:
        super().__init__(
            f"commit_ts {commit_ts} is that of two transactions, started at"
            f" {starts[0]} ({nodes[0]}) and {starts[1]} ({nodes[1]})"
        )
        self.commit_ts = commit_ts
        self.nodes = nodes


class Source:
    """One Pump, as the merge sees it."""

    def __init__(self, after_ts: int) -> None:
        self.resolved = after_ts
        self.last = after_ts
        self.bytes = 0
        self.txns: list[Txn] = []
        self.gone = False
        """Tombstoned: what it delivered is still merged, nothing more is waited for."""


class Merger:
    """`emitted`: everything at or below was taken out."""

    def __init__(self, after_ts: int) -> None:
        self.emitted = after_ts
        self.duplicates = 0
        self.stopped: SameCommitTs | None = None
        """Set by `take`: the horizon stays below it until one of the two Pumps is tombstoned."""
        self.given_up: list[tuple[str, Txn]] = []
        """Of two transactions of one commit_ts those of tombstoned Pumps, since `take` began."""
        self._sources: dict[str, Source] = {}

    @property
    def sources(self) -> dict[str, Source]:
        """By node id, in the order they were added; to be read, not written."""
        return self._sources

    def add(self, node: str, after_ts: int | None = None) -> bool:
        """Add a source that is read after `after_ts` (None: after what was emitted); False if it
        is one already. What it delivers at or below what was emitted is `Overtaken`."""
        known = self._sources.get(node)
        if known is not None and not known.gone:
            return False
        if known is not None and known.txns:
            # It rejoined before its last transactions were merged: they stay, it goes on.
            known.gone = False
            return True
        self._sources[node] = Source(self.emitted if after_ts is None else after_ts)
        return True

    def remove(self, node: str) -> None:
        """A tombstone (I4): the merge waits for this source no more."""
        source = self._sources.get(node)
        if source is None:
            return
        source.gone = True
        if self.stopped is not None and node in self.stopped.nodes:
            self.stopped = None
        if not source.txns:
            del self._sources[node]

    def push(self, node: str, txns: list[Txn], resolved: int, size: int) -> None:
        """What a source delivered, in order. `size`: bytes of the payloads. Raises Disorder,
        Overtaken."""
        source = self._sources[node]
        for commit_ts, _, _ in txns:
            if commit_ts <= source.last:
                raise Disorder(node, commit_ts, source.last)
            source.last = commit_ts
        if txns and txns[0][0] <= self.emitted:
            raise Overtaken(node, txns[0][0], self.emitted)
        source.txns.extend(txns)
        source.bytes += size
        source.resolved = max(source.resolved, resolved)
        # A source that is read up to `resolved` has nothing more to say below it.
        source.last = max(source.last, source.resolved)

    def horizon(self) -> int:
        """Everything at or below has been received; `emitted` while there is no source."""
        living = [source.resolved for source in self._sources.values() if not source.gone]
        if not living or self.stopped is not None:
            return self.emitted
        return max(self.emitted, min(living))

    def newest_waiting(self) -> int:
        """The largest commit_ts received and not yet merged; 0 = none."""
        return max((s.txns[-1][0] for s in self._sources.values() if s.txns), default=0)

    def highest(self) -> int:
        """The largest timestamp seen."""
        return max((s.last for s in self._sources.values()), default=self.emitted)

    def take(self, upto: int) -> list[Txn]:
        """Remove and return everything at or below `upto`, strictly rising in commit_ts.

        `upto` must not exceed `horizon()`. Equal (commit_ts, start_ts) is one transaction that two
        Pumps hold (I3). In front of two transactions of one commit_ts the merge is `stopped`; but
        what a tombstoned Pump had not got published was given up with it.
        """
        assert upto <= self.horizon(), "the merge would pass a source"
        taken: dict[str, list[Txn]] = {}
        for node, source in self._sources.items():
            cut = bisect_right(source.txns, upto, key=_commit_ts)
            if cut:
                taken[node] = source.txns[:cut]
                del source.txns[:cut]
        self.emitted = upto
        self.given_up = []
        runs = [txn for run in taken.values() for txn in run]
        if len(taken) > 1:
            # Sorted runs one after another: the sort finds and merges them (faster than a heap).
            runs.sort(key=_commit_ts)
            runs = self._without_twins(runs, taken)
        for node, run in taken.items():
            self._sources[node].bytes -= sum(len(payload) for _, _, payload in run)
        for node in [node for node, s in self._sources.items() if s.gone and not s.txns]:
            del self._sources[node]
        return runs

    def _without_twins(self, txns: list[Txn], taken: dict[str, list[Txn]]) -> list[Txn]:
        out: list[Txn] = []
        last_ts = last_start = -1
        for txn in txns:
            if txn[0] != last_ts:
                last_ts, last_start = txn[0], txn[1]
                out.append(txn)
            elif txn[1] == last_start:
                self.duplicates += 1
            else:
                kept = self._one_of(out.pop(), txn, taken)
                if kept is None:
                    break
                last_start = kept[1]
                out.append(kept)
        return out

    def _one_of(self, first: Txn, second: Txn, taken: dict[str, list[Txn]]) -> Txn | None:
        """The one that a living Pump holds; None stops the merge in front of both."""
        homes = [
            [node for node, run in taken.items() if any(txn[:2] == one[:2] for txn in run)]
            for one in (first, second)
        ]
        alive = [any(not self._sources[node].gone for node in nodes) for nodes in homes]
        if alive[0] != alive[1]:
            kept, lost = (first, second) if alive[0] else (second, first)
            self.given_up.append((homes[alive[0]][0], lost))
            return kept
        self.stopped = SameCommitTs(first[0], (first[1], second[1]), (homes[0][0], homes[1][0]))
        self.emitted = first[0] - 1
        for node, run in taken.items():
            cut = bisect_right(run, self.emitted, key=_commit_ts)
            self._sources[node].txns[:0] = run[cut:]
            del run[cut:]
        return None
