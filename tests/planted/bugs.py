"""Each bug breaks one safety step by a small edit of the sources. An edit that no longer fits is an
error: the bug then has to be planted anew, where the step is now."""

from __future__ import annotations

from dataclasses import dataclass

PUMP = "services/pump/tidelog_pump"
DRAINER = "services/drainer/tidelog_drainer"
APPLIER = "services/applier/tidelog_applier"
CLIENT = "shared/tidelog/pump_client"


@dataclass(frozen=True)
class Edit:
    """Replace `old`, which occurs exactly once in `path`, by `new`."""

    path: str
    old: str
    new: str


@dataclass(frozen=True)
class Bug:
    """`breaks` names the rule of design section 4, 5 or 7 that the edits break. One that is not
    `hunted` shows only under a fault that random histories leave out: its schedule must do."""

    name: str
    breaks: str
    edits: tuple[Edit, ...]
    hunted: bool = True


BUGS = (
    Bug(
        "ack-before-sync",
        "I1: a Prewrite is acked only after fdatasync of its bytes",
        (
            Edit(
                f"{PUMP}/write/writer.py",
                "        written = await self._store(intake)\n"
                '        hit("pump.writer.before_ack")\n'
                "        self._answer(group, outcomes)\n",
                "        self._answer(group, outcomes)\n"
                "        written = await self._store(intake)\n"
                '        hit("pump.writer.before_ack")\n',
            ),
        ),
    ),
    Bug(
        "closed-when-appended",
        "section 7: a Prewrite is open until its Commit is synced AND indexed",
        (
            Edit(
                f"{PUMP}/index/chaser.py",
                "        message = Written(placed())\n",
                "        message = Written(placed())\n"
                "        ended = [s for s in message.stored if s.kind.value]\n"
                "        closed = [(s.start_ts, s.commit_ts) for s in ended]\n"
                "        await self._sorter.tell(Indexed(closed))\n",
            ),
            Edit(
                f"{PUMP}/index/indexer.py",
                "        if closed and not chased:\n"
                "            await self._sorter.tell(Indexed(closed, end=self._indexed))\n"
                "        elif chased:\n",
                "        if chased:\n",
            ),
            Edit(
                f"{PUMP}/index/chaser.py",
                "    Entered,\n    Resolved,\n",
                "    Entered,\n    Indexed,\n    Resolved,\n",
            ),
        ),
    ),
    Bug(
        "chaser-without-a-cap",
        "section 7: while the chaser is on r is capped at W just before the first unread record",
        (
            Edit(
                f"{PUMP}/sort/sorter.py",
                "        self.cap = self.high.value\n",
                "        self.cap = None\n",
            ),
        ),
    ),
    Bug(
        "scan-before-resolved",
        "section 5, pull: the reply takes resolved_ts first, then scans",
        (
            Edit(
                f"{PUMP}/pull/puller.py",
                "        frame, left_out = await self._framer.frame(\n"
                "            wanted.after_ts, resolved.resolved_ts, budget, unwanted\n"
                "        )\n",
                "        frame, left_out = await self._framer.frame("
                "wanted.after_ts, TS_MAX, budget, unwanted)\n"
                "        resolved = await self._resolved(-1, 0)\n"
                "        frame.resolved_ts = min(frame.resolved_ts, resolved.resolved_ts)\n"
                "        while frame.txns and frame.txns[-1].commit_ts > resolved.resolved_ts:\n"
                "            del frame.txns[-1]\n",
            ),
            Edit(
                f"{PUMP}/pull/puller.py",
                "from tidelog_proto.transport_pb2 import",
                "from tidelog.timestamps import TS_MAX\nfrom tidelog_proto.transport_pb2 import",
            ),
        ),
    ),
    Bug(
        "cut-reports-full-resolved",
        "section 5, pull: a reply cut short reports the last commit_ts it holds whole",
        (
            Edit(
                f"{PUMP}/pull/frames.py",
                "                    frame.resolved_ts = position\n"
                "                    return frame, left_out\n",
                "                    return frame, left_out\n",
            ),
        ),
    ),
    Bug(
        "sorter-behind-the-index-buffer",
        "section 7: the writer enters a Prewrite on arrival, never behind the index buffer",
        (
            Edit(
                f"{PUMP}/index/chaser.py",
                "        if start_ts and not self._chase.on:\n"
                "            await self._sorter.tell(Entered(start_ts))\n",
                "",
            ),
            Edit(
                f"{PUMP}/index/indexer.py",
                "        for message in batch:\n"
                "            match message:\n                case Written",
                "        stored = [s for m in batch if isinstance(m, Written) for s in m.stored]\n"
                "        started = [s.start_ts for s in stored if s.kind is Kind.PREWRITE]\n"
                "        await self._sorter.tell(Entered(started))\n"
                "        for message in batch:\n"
                "            match message:\n                case Written",
            ),
            Edit(
                f"{PUMP}/index/indexer.py",
                "import LATE_KEPT, Indexed, Recovered, SorterMessage",
                "import LATE_KEPT, Entered, Indexed, Recovered, SorterMessage",
            ),
        ),
    ),
    Bug(
        "merge-takes-equal-for-later",
        "I3: everything at or below the horizon is merged, nothing of it stays behind",
        (
            Edit(
                f"{DRAINER}/merge/merger.py",
                "cut = bisect_right(source.txns, upto, key=_commit_ts)",
                "cut = bisect_left(source.txns, upto, key=_commit_ts)",
            ),
            Edit(f"{DRAINER}/merge/merger.py", "import bisect_right", "import bisect_left"),
        ),
    ),
    Bug(
        "checkpoint-before-apply",
        "I6: a checkpoint never passes a transaction that is not durably applied",
        (
            Edit(
                f"{APPLIER}/apply/flight.py",
                "        self._windows.append(window)\n",
                "        self._windows.append(window)\n"
                "        self.applied = max(self.applied, window.commit_ts)\n",
            ),
        ),
    ),
    Bug(
        "source-0-not-asked",
        "I3: before everything up to x is emitted, the membership bucket is asked",
        (
            Edit(
                f"{DRAINER}/merge/collector.py",
                "        if not await self._consult():\n            return False\n",
                "        if idle and not await self._consult():\n            return False\n",
            ),
        ),
    ),
    Bug(
        "begins-without-the-bucket",
        "I3: source 0 is the membership bucket, not what a Drainer has kept of it on its disk",
        (
            Edit(
                f"{DRAINER}/merge/collector.py",
                "        await self._admit()\n        log.info(",
                "        await self._admit()\n"
                "        state = await self._bucket.state()\n"
                "        if self._cursors and state is not None:\n"
                "            clock = self._ports.clock\n"
                "            self._view.judge(state, clock.monotonic(), clock.wall_ms())\n"
                "            self._view.entries_read(state.last_seq)\n"
                "        log.info(",
            ),
        ),
    ),
    Bug(
        "sources-forgotten",
        "I4: a Pump leaves a source set only by a tombstone, whatever else is lost",
        (Edit(f"{DRAINER}/merge/sources.py", "        self._kept = self._stored()\n", ""),),
        # A Pump that is met again with what was passed stops the merge: seeds to 1014 showed none.
        hunted=False,
    ),
    Bug(
        "log-not-announced",
        "I4: a failed join tombstones only a Pump that brought no binlogs",
        (
            Edit(
                f"{PUMP}/announce.py",
                "            logTS=max(self._segments.newest_ts, self._purge.ts),\n",
                "",
            ),
            Edit(f"{PUMP}/announce.py", "maxCommitTS=now.max_commit_ts", "maxCommitTS=0"),
        ),
        # Few histories lose bucket and copy, and then the Pump once more while it joins.
        hunted=False,
    ),
    Bug(
        "copy-abandoned-early",
        "section 7: a Rollback goes to the other Pumps only when the Commit is acked",
        (
            Edit(
                f"{CLIENT}/delivery/finisher.py",
                "        await self._backlog.enter(item)\n",
                "        await self._backlog.enter(item)\n        self._abandon(item)\n",
            ),
        ),
    ),
)
