"""What became of each transaction: the workload's TiKV, as the Pump sees it. Pure."""

from __future__ import annotations

from collections import OrderedDict

from tidelog.ports import Verdict

OPEN, COMMITTED, ROLLED_BACK = "undecided", "committed", "rolled_back"
MAX_DECIDED = 1 << 18


class Outcome:
    """`expected`: no Commit or Rollback is coming, a Pump has to ask. `answered`: it was told."""

    __slots__ = ("answered", "commit_ts", "expected", "state")

    def __init__(self) -> None:
        self.state = OPEN
        self.commit_ts = 0
        self.expected = False
        self.answered = False


class Outcomes:
    """By start_ts. A decision is never taken back."""

    def __init__(self, limit: int = MAX_DECIDED) -> None:
        self._limit = limit
        # A dict would look for its oldest behind all that went before it.
        self._outcomes: OrderedDict[int, Outcome] = OrderedDict()
        self._owed: OrderedDict[int, Outcome] = OrderedDict()
        """Older ones that a Pump may yet ask for, for as long as it is away."""
        self._forgotten_ts = 0
        self.first_ts = 0
        """Transactions before it belong to an earlier run: nobody here can decide them ..."""
        self.inherited_ts: int | None = None
        """... but those that began at or above this: their runs are known to be over."""

    def begin(self, start_ts: int) -> None:
        if len(self._outcomes) >= self._limit:
            oldest, outcome = next(iter(self._outcomes.items()))
            assert outcome.state != OPEN, "too many open transactions"
            del self._outcomes[oldest]
            self._forgotten_ts = max(self._forgotten_ts, oldest)
            if outcome.expected and not outcome.answered:
                self._owed[oldest] = outcome
                if len(self._owed) > self._limit:
                    self._owed.popitem(last=False)
        self._outcomes[start_ts] = Outcome()

    def commit(self, start_ts: int, commit_ts: int) -> bool:
        """False when somebody forced a rollback before."""
        outcome = self._outcomes[start_ts]
        if outcome.state != OPEN:
            return False
        outcome.state, outcome.commit_ts = COMMITTED, commit_ts
        return True

    def roll_back(self, start_ts: int) -> None:
        outcome = self._outcomes[start_ts]
        assert outcome.state != COMMITTED
        outcome.state = ROLLED_BACK

    def abandon(self, start_ts: int) -> None:
        """Its client died: a Pump that has its Prewrite must ask."""
        self._outcomes[start_ts].expected = True

    def known(self, start_ts: int) -> Outcome | None:
        """What is known of it by now."""
        return self._outcomes.get(start_ts) or self._owed.get(start_ts)

    def verdict(self, start_ts: int, *, force: bool) -> Verdict:
        """A forced question about an open (or unknown) transaction rolls it back for good; one that
        was decided so long ago that nobody knows how stays as it is."""
        outcome = self.known(start_ts)
        if outcome is None:
            if self.inherited_ts is not None and self.inherited_ts <= start_ts < self.first_ts:
                return Verdict(ROLLED_BACK)
            if not force or start_ts < self.first_ts or start_ts <= self._forgotten_ts:
                return Verdict(OPEN)
            self.begin(start_ts)
            outcome = self._outcomes[start_ts]
        if outcome.state == OPEN and force:
            outcome.state = ROLLED_BACK
        if outcome.state != OPEN:
            outcome.answered = True
            self._owed.pop(start_ts, None)
        return Verdict(outcome.state, outcome.commit_ts)

    def unasked(self) -> int:
        """Transactions whose clients died and that no Pump has asked about yet."""
        now = sum(1 for one in self._outcomes.values() if one.expected and not one.answered)
        return now + len(self._owed)
