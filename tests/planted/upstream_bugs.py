"""The clients of PD and TiKV with one safety step taken out."""

from __future__ import annotations

from tests.planted.bug import LIBRARY, Bug, Edit

UPSTREAM = f"{LIBRARY}/upstream"

BUGS = (
    Bug(
        "pd-stream-kept-after-silence",
        "I9: a timestamp was allocated after its caller asked; what an old leader still says is"
        " nobody's",
        (
            Edit(
                f"{UPSTREAM}/pd_oracle.py",
                "                self.close()\n                self._pd.leave(leader)\n",
                "                self._pd.leave(leader)\n",
            ),
        ),
    ),
    Bug(
        "pd-going-back-believed",
        "I9: one oracle, whose timestamps rise through every change of its leader",
        (
            Edit(
                f"{UPSTREAM}/pd_oracle.py",
                "        if last - total < self._last:\n",
                "        if last - total < 0:\n",
            ),
        ),
    ),
    Bug(
        "pd-of-another-cluster-believed",
        "I9: the oracle is the one that gives the transactions their commit_ts",
        (
            Edit(
                f"{UPSTREAM}/pd.py",
                "        if header.cluster_id != self.cluster_id:\n",
                "        if not header.cluster_id:\n",
            ),
        ),
    ),
    Bug(
        "pd-answer-without-its-count",
        "I9: an answer for others is no answer: the timestamps after it are somebody else's",
        (
            Edit(
                f"{UPSTREAM}/pd_oracle.py",
                "        if answer.count != total or given.suffix_bits",
                "        if given.suffix_bits",
            ),
        ),
    ),
    Bug(
        "expired-lock-taken-for-committed",
        "section 7: rolled back is a decision that the upstream can't take back, and no commit",
        (
            Edit(
                f"{UPSTREAM}/tikv_txn_status.py",
                "TTLExpireRollback, LockNotExistRollback):\n        return Verdict(ROLLED_BACK)\n",
                "TTLExpireRollback, LockNotExistRollback):\n"
                "        return Verdict(COMMITTED, answer.commit_version)\n",
            ),
        ),
    ),
    Bug(
        "living-lock-rolled-back",
        "section 7: unknown keeps waiting",
        (
            Edit(
                f"{UPSTREAM}/tikv_txn_status.py",
                "    if answer.lock_ttl or answer.lock_info.use_async_commit:\n",
                "    if answer.lock_info.use_async_commit:\n",
            ),
        ),
    ),
    Bug(
        "rollback-record-taken-for-a-commit",
        "section 7: rolled back is a protective rollback record",
        (
            Edit(
                f"{UPSTREAM}/tikv_txn_status.py",
                "            if write.type == Rollback:\n",
                "            if not write.commit_ts:\n",
            ),
        ),
    ),
    Bug(
        "verdict-of-a-stale-region",
        "section 7: a store that does not lead the key's region has no word on it",
        (
            Edit(
                f"{UPSTREAM}/tikv.py",
                '                if not answer.HasField("region_error"):\n',
                '                if answer.HasField("region_error") or place.region.id:\n',
            ),
        ),
    ),
    Bug(
        "collected-record-taken-for-none",
        "section 7: a missing record is no decision",
        (
            Edit(
                f"{UPSTREAM}/tikv_txn_status.py",
                "        return start_ts <= await self._pd.gc_safe_point()\n",
                "        return start_ts < 0 * await self._pd.gc_safe_point()\n",
            ),
        ),
    ),
)
