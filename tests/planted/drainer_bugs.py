"""The Drainer with one safety step taken out.

An edit that no longer fits is an error: the bug then has to be planted anew, where the step is now.
"""

from __future__ import annotations

from tests.planted.bug import DRAINER, LIBRARY, Bug, Edit

BUGS = (
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
        hunted=True,
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
        hunted=True,
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
        hunted=True,
    ),
    Bug(
        "sources-forgotten",
        "I4: a Pump leaves a source set only by a tombstone, whatever else is lost",
        (Edit(f"{DRAINER}/merge/sources.py", "        self._kept = self._stored()\n", ""),),
    ),
    Bug(
        "passed-and-not-kept",
        "I4: from where this Drainer passed anything, and with which sources, is durable before it"
        " does",
        (
            Edit(
                f"{DRAINER}/merge/collector.py",
                "                    await self._remember()\n                    kept = True\n",
                "                    kept = True\n",
            ),
        ),
    ),
    Bug(
        "slow-pump-left-out",
        "I3: everything up to x is received from every source before x is emitted",
        (
            Edit(
                f"{DRAINER}/merge/merger.py",
                "        living = [source.resolved for source in self._sources.values() if "
                "not source.gone]\n",
                "        newest = max((source.resolved for source in "
                "self._sources.values()), default=0)\n"
                "        recent = newest - (1000 << 18)\n"
                "        living = [s.resolved for s in self._sources.values() if not "
                "s.gone and s.resolved > recent]\n",
            ),
        ),
    ),
    Bug(
        "twins-both-emitted",
        "I3: equal (commit_ts, start_ts) from two sources is one transaction",
        (
            Edit(
                f"{DRAINER}/merge/merger.py",
                "                self.duplicates += 1\n",
                "                self.duplicates += 1\n                out.append(txn)\n",
            ),
        ),
    ),
    Bug(
        "same-commit-ts-first-wins",
        "I3: equal commit_ts with another start_ts is a typed error",
        (
            Edit(
                f"{DRAINER}/merge/merger.py",
                "            elif txn[1] == last_start:\n",
                "            elif txn[1] >= 0:\n",
            ),
        ),
    ),
    Bug(
        "batch-without-its-fence",
        "section 5: a batch is fenced by the expected last sequence",
        (
            Edit(
                f"{DRAINER}/publish/tail.py",
                "            try:\n"
                "                self.sequence = await self._ports.bus.append(\n"
                "                    self._stream,\n"
                "                    chunk,\n"
                "                    expected_last_seq=self.sequence,\n",
                "            try:\n"
                "                there = await self.look()\n"
                "                end = there.last_seq if there else 0\n"
                "                self.sequence = await self._ports.bus.append(\n"
                "                    self._stream,\n"
                "                    chunk,\n"
                "                    expected_last_seq=end,\n",
            ),
        ),
    ),
    Bug(
        "published-without-the-lease",
        "section 8: a second Drainer is a standby by its lease",
        (
            Edit(
                f"{DRAINER}/publish/publisher.py",
                "        await self._lease.ask(AskLead)\n",
                "",
            ),
        ),
    ),
    Bug(
        "epoch-not-compared",
        "section 5: the Drainer stops if a foreign epoch wrote after its own",
        (
            Edit(
                f"{DRAINER}/publish/tail.py",
                "        if wrote.number < self._epoch.number:\n"
                "            # A batch of an earlier life was still on its way when we "
                "read our position.\n"
                '            raise TailLost(f"epoch {wrote.text} wrote after this Drainer '
                'began")\n'
                "        raise Fenced(wrote, self._stream, self._epoch)\n",
                "        self.sequence = state.last_seq\n        return False\n",
            ),
        ),
    ),
    Bug(
        "answer-lost-taken-for-refused",
        "section 5: after an unknown result the Drainer reads the tail",
        (
            Edit(
                f"{DRAINER}/publish/tail.py",
                "        if ours:\n"
                "            self.sequence = newest.sequence\n"
                "            return True\n",
                "        if ours:\n"
                "            self.sequence = newest.sequence\n"
                "            return False\n",
            ),
        ),
    ),
    Bug(
        "marker-before-rows",
        "section 5: the marker is the last message of its batch",
        (
            Edit(
                f"{DRAINER}/publish/batcher.py",
                "        self._messages.append(\n"
                "            self._mark(\n"
                "                subjects.changes_txn(self._feed), _json(marker), "
                "marked[0].commit_ts, last_ts, count\n"
                "            )\n"
                "        )\n",
                "        self._messages.insert(\n"
                "            0,\n"
                "            self._mark(\n"
                "                subjects.changes_txn(self._feed), _json(marker), "
                "marked[0].commit_ts, last_ts, count\n"
                "            ),\n"
                "        )\n",
            ),
        ),
    ),
    Bug(
        "position-of-the-newest-message",
        "section 5: the position at start is a marker's or a watermark's",
        (
            Edit(
                f"{DRAINER}/publish/position.py",
                "_mark(watermark, Watermark, stream),\n",
                "Watermark(\n"
                "            int(newest.headers[changes.H_LAST_TS]),\n"
                "            int(marker.headers[changes.H_LAST_TS]) if marker else 0,\n"
                "        )\n"
                "        if newest\n"
                "        else None,\n",
            ),
        ),
    ),
    Bug(
        "position-of-the-first-transaction",
        "section 5: the position at start is the last marker's last commit_ts",
        (
            Edit(
                f"{DRAINER}/publish/position.py",
                "        last = [self.marker.txns[-1].commit_ts] if",
                "        last = [self.marker.txns[0].commit_ts - 1] if",
            ),
        ),
    ),
    Bug(
        "chain-begun-anew",
        "I5: every marker carries the last commit_ts of the one before it",
        (
            Edit(
                f"{DRAINER}/publish/position.py",
                "begin, prev = tail.commit_ts, tail.prev_commit_ts\n",
                "begin, prev = tail.commit_ts, 0\n",
            ),
        ),
    ),
    Bug(
        "bucket-rolled-back-believed",
        "I3: a bucket that was rolled back holds everything back for one lease time",
        (
            Edit(
                f"{DRAINER}/merge/membership.py",
                "        elif state.last_seq < self._seen:\n",
                "        elif state.last_seq < 0:\n",
            ),
        ),
    ),
    Bug(
        "closing-pump-let-go",
        "I4: a Pump leaves a source set only by its tombstone",
        (
            Edit(
                f"{DRAINER}/merge/membership.py",
                "gone = member.state == OFFLINE\n",
                'gone = member.state in (OFFLINE, "closing")\n',
            ),
        ),
    ),
    Bug(
        "source-0-not-asked-once-trusted",
        "I3: source 0 is asked before everything that is emitted",
        (
            Edit(
                f"{DRAINER}/merge/collector.py",
                "        self._consulted = clock.monotonic()\n        state =",
                "        self._consulted = clock.monotonic()\n"
                "        if self._view.trusted:\n"
                "            return True\n"
                "        state =",
            ),
        ),
    ),
    Bug(
        "crc-of-a-transaction-not-compared",
        "I7: corruption stops the reader, typed",
        (
            Edit(
                f"{DRAINER}/merge/inbound.py",
                "            if crc != piece.crc:\n",
                "            if crc < 0:\n",
            ),
        ),
    ),
    Bug(
        "piece-that-continues-nothing-dropped",
        "I7: nothing is skipped silently",
        (
            Edit(
                f"{DRAINER}/merge/inbound.py",
                "                raise Corrupt(\n"
                '                    f"{self.node} sent transaction {piece.commit_ts} from offset',
                "                return None\n"
                "                raise Corrupt(\n"
                '                    f"{self.node} sent transaction {piece.commit_ts} from offset',
            ),
        ),
    ),
    Bug(
        "newest-structure-for-all-rows",
        "section 6: rows are decoded with the newest TableInfo at or below their own version",
        (
            Edit(
                f"{LIBRARY}/decode/routes.py",
                "        return max(version, self._passed.version_of(table_id))\n",
                "        return 1 << 62\n",
            ),
        ),
    ),
    Bug(
        "structures-after-their-rows",
        "section 6: a structure is in its bucket before the stream names it",
        (
            Edit(
                f"{DRAINER}/publish/appender.py",
                "        await self._keep_beside(batch.structures)\n"
                "        for chunk in batch.chunks:\n            await self._tail.append(chunk)\n",
                "        for chunk in batch.chunks:\n            await self._tail.append(chunk)\n"
                "        await self._keep_beside(batch.structures)\n",
            ),
        ),
    ),
    Bug(
        "each-batch-twice",
        "I5: each transaction is in the stream once",
        (
            Edit(
                f"{DRAINER}/publish/batcher.py",
                "        return [*chunks, last] if last else chunks\n",
                "        return [*chunks, last] if last else [chunk * 2 for chunk in chunks]\n",
            ),
        ),
    ),
    Bug(
        "drop-that-touches-nothing",
        "section 5: a DDL names every table that it touches, as it was before",
        (
            Edit(
                f"{LIBRARY}/decode/ddls.py",
                "            tables=tables,\n            early=early,\n",
                "            tables=[one for one in tables if one.after],\n"
                "            early=early,\n",
            ),
        ),
    ),
    Bug(
        "ddl-with-another-text",
        "section 5: a DDL has the query of its job",
        (
            Edit(
                f"{LIBRARY}/decode/ddls.py",
                "            query=query,\n            kind=outcome.kind,\n",
                "            query=query[:24],\n            kind=outcome.kind,\n",
            ),
        ),
    ),
    Bug(
        "told-taken-for-passed",
        "section 6: readers see a table's definition before rows that need it, a Writer's too",
        (
            Edit(
                f"{LIBRARY}/decode/ddls.py",
                " and not (self._told and step.told_before)\n",
                "\n",
            ),
        ),
    ),
    Bug(
        "overtaken-ddl-taken-for-passed",
        "section 6: readers see a table's definition before rows that need it, in whatever order"
        " the binlogs of DDLs come",
        (
            Edit(
                f"{DRAINER}/publish/batcher.py",
                "(ddl.highest, *ddl.behind)",
                "(ddl.highest,)",
            ),
        ),
    ),
    Bug(
        "replay-without-what-a-life-read",
        "I4: a Pump that is gone is done with when what it held is published",
        (
            Edit(
                f"{DRAINER}/merge/collector.py",
                "if self._window is not None and node not in self._read:",
                "if self._window is not None and source is not None:",
            ),
        ),
    ),
)
