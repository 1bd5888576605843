"""The Pump with one safety step taken out.

An edit that no longer fits is an error: the bug then has to be planted anew, where the step is now.
"""

from __future__ import annotations

from tests.planted.bug import PUMP, Bug, Edit

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
        hunted=True,
    ),
    Bug(
        "closed-when-appended",
        "section 7: a Prewrite is open until its Commit is synced AND indexed",
        (
            Edit(
                f"{PUMP}/index/chaser.py",
                "        message = Written(placed(), self._came_ms)\n",
                "        message = Written(placed(), self._came_ms)\n"
                "        ended = [s for s in message.stored if s.kind.value]\n"
                "        closed = [(s.start_ts, s.commit_ts) for s in ended]\n"
                "        await self._sorter.tell(Indexed(closed))\n",
            ),
            Edit(
                f"{PUMP}/index/indexer.py",
                "        if closed and not chased:\n"
                "            high_ts = self._pairing.high.value\n"
                "            indexed = Indexed(closed, high_ts=high_ts, end=self._indexed)\n"
                "            await self._sorter.tell(indexed)\n"
                "        elif chased:\n",
                "        if chased:\n",
            ),
            Edit(
                f"{PUMP}/index/chaser.py",
                "    Entered,\n    Resolved,\n",
                "    Entered,\n    Indexed,\n    Resolved,\n",
            ),
        ),
        hunted=True,
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
        hunted=True,
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
        hunted=True,
    ),
    Bug(
        "cut-reports-full-resolved",
        "section 5, pull: a reply cut short reports the last commit_ts it holds whole",
        (
            Edit(
                f"{PUMP}/pull/frames.py",
                "        self.frame.resolved_ts = self.position\n",
                "",
            ),
        ),
        hunted=True,
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
        hunted=True,
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
    ),
    Bug(
        "watermark-past-open",
        "I2: resolved_ts stays at or below the bound of every open Prewrite",
        (
            Edit(
                f"{PUMP}/sort/sorter.py",
                "        safe = min(self.high.value, bounds[0][0]) if bounds else "
                "self.high.value\n",
                "        safe = self.high.value\n",
            ),
        ),
    ),
    Bug(
        "repeated-prewrite-opened-anew",
        "section 7: a repeated Prewrite keeps its first bound",
        (
            Edit(
                f"{PUMP}/sort/sorter.py",
                "            self.repeated += 1\n            return\n",
                "            self.repeated += 1\n",
            ),
        ),
    ),
    Bug(
        "unconfirmed-commit-moves-w",
        "I9: a Commit above the last oracle answer moves W only after the oracle confirms it",
        (
            Edit(
                f"{PUMP}/sort/high_ts.py",
                "            self.wanted = max(self.wanted, ts)\n            return False\n",
                "            self.value = ts\n            return True\n",
            ),
        ),
    ),
    Bug(
        "late-copy-not-asked-about",
        "I2: of a Commit at or below r the Pump asks the others who has it",
        (
            Edit(
                f"{PUMP}/sort/sorter.py",
                "            self.late += 1\n            return False\n        return True\n",
                "            self.late += 1\n        return True\n",
            ),
        ),
    ),
    Bug(
        "purged-not-refused",
        "I7: purge stops a reader that is below it, typed",
        (
            Edit(
                f"{PUMP}/pull/scan.py",
                "        self._purge.check(after_ts)\n",
                "",
            ),
        ),
    ),
    Bug(
        "gc-below-a-reader",
        "section 7: retention never passes the safe point",
        (
            Edit(
                f"{PUMP}/retention/gc.py",
                "        return min(self.age_ts, self.floor, self.resolved_ts)\n",
                "        return min(self.age_ts, self.resolved_ts)\n",
            ),
        ),
    ),
    Bug(
        "gc-takes-rows-of-a-later-commit",
        "section 7: a segment goes only when no Commit above the target points into it",
        (
            Edit(
                f"{PUMP}/retention/gc.py",
                "    last_ts = max(segment.max_ts, segment.pointed_ts)\n"
                "    if last_ts <= limit.target:\n",
                "    last_ts = segment.max_ts\n    if last_ts <= limit.target:\n",
            ),
        ),
    ),
    Bug(
        "undecided-taken-for-rolled-back",
        "section 7: rolled back is a decision, never a missing record",
        (
            Edit(
                f"{PUMP}/sort/resolver.py",
                "        elif verdict.state == ROLLED_BACK:\n",
                "        else:\n",
            ),
        ),
    ),
    Bug(
        "verdict-forced-at-once",
        "section 7: TxnStatus forces a verdict only from the transaction timeout on",
        (
            Edit(
                f"{PUMP}/sort/resolver.py",
                "            force = now_s - prewrite.since_s >= self._txn_timeout_s\n",
                "            force = True\n",
            ),
        ),
    ),
    Bug(
        "second-commit-not-compared",
        "section 7: two Commits of one start_ts that differ are a typed error",
        (
            Edit(
                f"{PUMP}/write/intake.py",
                "        if before == facts.commit_ts:\n",
                "        if before is not None:\n",
            ),
        ),
    ),
    Bug(
        "commit-without-its-prewrite",
        "section 7: a Commit is readable only with its Prewrite",
        (
            Edit(
                f"{PUMP}/index/pairing.py",
                "            self._put(keys.unpaired_key(start_ts), "
                "keys.pack_unpaired(commit_ts, pointer))\n",
                "            self._put(keys.commit_key(commit_ts, start_ts), "
                "keys.pack_place(place))\n",
            ),
        ),
    ),
    Bug(
        "indexer-skips-records",
        "section 7: what is acked is indexed, every record of it",
        (
            Edit(
                f"{PUMP}/index/indexer.py",
                "        for stored in records:\n            feed(stored, wall_ms)\n",
                "        for stored in records:\n"
                '            self.fed = getattr(self, "fed", 0) + 1\n'
                "            if stored.kind is Kind.PREWRITE and self.fed % 400 < 2:\n"
                "                continue\n"
                "            feed(stored, wall_ms)\n",
            ),
        ),
    ),
    Bug(
        "page-without-its-last",
        "section 5, pull: a reply holds everything up to what it reports",
        (
            Edit(
                f"{PUMP}/pull/frames.py",
                "                return filling.frame, filling.left_out\n",
                "                if len(filling.frame.txns) > 3:\n"
                "                    del filling.frame.txns[-1]\n"
                "                return filling.frame, filling.left_out\n",
            ),
        ),
    ),
    Bug(
        "start-cuts-a-good-record",
        "I1: an ack is never taken back, by a start neither",
        (
            Edit(
                f"{PUMP}/log/opening.py",
                "        good = await self._read_tail(fid, known)\n",
                "        good = await self._read_tail(fid, known)\n"
                "        for step in walk(file.read, 0, good):\n"
                "            good = step.records[-1][0] if step.records else good\n",
            ),
        ),
    ),
    Bug(
        "open-forgotten-at-start",
        "I2: what is open stays open over a restart",
        (
            Edit(
                f"{PUMP}/index/indexer.py",
                "last, pairing.opened(), end",
                "last, [], end",
            ),
        ),
    ),
    Bug(
        "other-bytes-than-written",
        "I1: what is read is what was acked",
        (
            Edit(
                f"{PUMP}/pull/frames.py",
                "                        filling.add(committed, payload)\n",
                "                        if committed.start_ts % 64 == 0:\n"
                '                            payload = payload[:-1] + b"?"\n'
                "                        filling.add(committed, payload)\n",
            ),
        ),
    ),
)
