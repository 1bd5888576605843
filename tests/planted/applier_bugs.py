"""The Applier, its relay, its plan with one safety step taken out.

An edit that no longer fits is an error: the bug then has to be planted anew, where the step is now.
"""

from __future__ import annotations

from tests.planted.bug import APPLIER, LIBRARY, Bug, Edit

BUGS = (
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
        hunted=True,
    ),
    Bug(
        "ddl-beside-rows",
        "section 9: a DDL is a barrier",
        (
            Edit(
                f"{APPLIER}/apply/pipeline.py",
                "        await self.ensure_open()\n"
                "        await self.drain()\n"
                "        if self.flight.applied",
                "        await self.ensure_open()\n        if self.flight.applied",
            ),
        ),
    ),
    Bug(
        "unsafe-after-an-unclean-stop",
        "section 9: safe mode after an unclean stop",
        (
            Edit(
                f"{APPLIER}/apply/control.py",
                "                self.safe_until = max(found.unsure, found.reach)\n"
                "            self.is_open",
                "                self.safe_until = found.unsure\n            self.is_open",
            ),
        ),
    ),
    Bug(
        "unsafe-after-a-lost-answer",
        "I6: what may have been applied is applied so that nothing changes",
        (
            Edit(
                f"{APPLIER}/apply/lanes.py",
                "        await lane.apply(msgspec.structs.replace(work, safe=True) if "
                "again else work)\n",
                "        await lane.apply(work)\n",
            ),
        ),
    ),
    Bug(
        "consistent-before-the-first-row",
        "section 9: consistent=false is saved before the first row",
        (
            Edit(
                f"{APPLIER}/apply/pipeline.py",
                "        elif not self.control.tells_of_rows(upto):\n"
                "            await self.save(consistent=False)\n",
                "        self.control.tells_of_rows(upto)\n",
            ),
        ),
    ),
    Bug(
        "window-done-with-its-first-lane",
        "I6: a window is applied when its last lane is through",
        (
            Edit(
                f"{APPLIER}/apply/flight.py",
                "        window.waiting -= 1\n"
                "        self._land()\n"
                "        return not window.waiting\n",
                "        last = window.waiting == 1\n"
                "        window.waiting -= 1\n"
                "        left, window.waiting = window.waiting, 0\n"
                "        self._land()\n"
                "        window.waiting = left\n"
                "        return last\n",
            ),
        ),
    ),
    Bug(
        "keys-of-a-window-forgotten",
        "section 9: DMLs that share a key go to one lane in order",
        (
            Edit(
                f"{LIBRARY}/plan/causality.py",
                "        value = window << _LANE_BITS | lane\n        for key in keys:\n",
                "        value = window << _LANE_BITS | lane\n        for key in keys[:1]:\n",
            ),
        ),
    ),
    Bug(
        "conflict-without-a-flush",
        "section 9: one whose keys belong to two groups flushes",
        (
            Edit(
                f"{LIBRARY}/plan/causality.py",
                "        if any(one != window for one in self._windows):\n"
                "            return CONFLICT\n",
                "",
            ),
        ),
    ),
    Bug(
        "folded-without-the-old-key",
        "section 9: folded per key, a row that moved to another key leaves none behind",
        (
            Edit(
                f"{LIBRARY}/plan/fold.py",
                "            if after is None or old != new:\n",
                "            if after is None:\n",
            ),
        ),
    ),
    Bug(
        "relay-purged-too-early",
        "section 6: only relay files wholly below the saved checkpoint are purged",
        (
            Edit(
                f"{LIBRARY}/relay/log.py",
                "self._parts[1].prev_commit_ts <= below:",
                "self._parts[0].prev_commit_ts <= below:",
            ),
        ),
    ),
    Bug(
        "relay-read-past-its-whole-batches",
        "section 6: the relay ends with its last whole batch",
        (
            Edit(
                f"{LIBRARY}/relay/opening.py",
                '            if one.WhichOneof("content") == "batch":\n'
                "                good = offset + record.HEADER_BYTES + len(payload)\n"
                "                commit_ts",
                "            good = offset + record.HEADER_BYTES + len(payload)\n"
                '            if one.WhichOneof("content") == "batch":\n'
                "                commit_ts",
            ),
        ),
    ),
    Bug(
        "gap-not-seen",
        "I5: prev_commit_ts above mine is a gap",
        (
            Edit(
                f"{LIBRARY}/feed_reader.py",
                "    if prev_commit_ts > position:\n        raise Gap(position, prev_commit_ts)\n",
                "",
            ),
        ),
    ),
    Bug(
        "read-again-taken-for-new",
        "I5: commit_ts at or below mine is skipped",
        (
            Edit(
                f"{LIBRARY}/feed_reader.py",
                "    if commit_ts <= position:\n        return False\n",
                "",
            ),
        ),
    ),
    Bug(
        "attempts-mixed",
        "section 5: a new attempt discards what a reader had buffered",
        (
            Edit(
                f"{APPLIER}/read/assembler.py",
                "        if self._attempt != marker.attempt or not marker.messages:\n",
                "        if not marker.messages:\n",
            ),
        ),
    ),
    Bug(
        "name-taken-for-a-text",
        "I7: nothing is skipped silently, by an index on a column that is not there neither",
        (
            Edit(
                f"{LIBRARY}/downstreams/table_sqlite.py",
                '    return "`" + identifier.replace("`", "``") + "`"\n',
                "    return '\"' + identifier.replace('\"', '\"\"') + '\"'\n",
            ),
        ),
    ),
)
