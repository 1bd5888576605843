"""The client, the registry and the kernel with one safety step taken out.

An edit that no longer fits is an error: the bug then has to be planted anew, where the step is now.
"""

from __future__ import annotations

from tests.planted.bug import CLIENT, LIBRARY, REGISTRY, Bug, Edit

BUGS = (
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
        hunted=True,
    ),
    Bug(
        "commit-ts-before-the-ack",
        "section 1: commit_ts is fetched only after the Prewrite's ack",
        (
            Edit(
                f"{CLIENT}/two_phase.py",
                "            await self.client.write(prewrite)\n"
                "            deadline = self.clock.monotonic() + self.commit_timeout_s\n"
                "            ask = partial(self.oracle.fresh, prewrite.start_ts)\n"
                "            commit_ts = await self._patiently(ask, deadline)\n",
                "            deadline = self.clock.monotonic() + self.commit_timeout_s\n"
                "            ask = partial(self.oracle.fresh, prewrite.start_ts)\n"
                "            commit_ts = await self._patiently(ask, deadline)\n"
                "            await self.client.write(prewrite)\n",
            ),
        ),
    ),
    Bug(
        "doubt-taken-for-refusal",
        "section 7: an outcome it can't know is reported as unknown",
        (
            Edit(
                f"{CLIENT}/delivery/prewrites.py",
                "            if error.definite:\n                route.in_doubt = before\n",
                "            route.in_doubt = before\n",
            ),
        ),
    ),
    Bug(
        "commit-to-the-last-tried",
        "section 7: the first ack decides a transaction's Pump",
        (
            Edit(
                f"{CLIENT}/client.py",
                "            return [Finish(start_ts, payload, route.pump, deadline, "
                "others=route.others())]\n",
                "            return [Finish(start_ts, payload, route.tried[0], deadline)]\n",
            ),
        ),
    ),
    Bug(
        "commit-before-its-decision",
        "section 1: the decision to commit is durable before the Commit is sent",
        (
            Edit(
                f"{CLIENT}/decisions/coordinator.py",
                "        await self._keeper.append(decisions)\n",
                "        for one in decided:\n"
                '            self.spawn(self._client.write(one.commit), "early")\n'
                "        await self._keeper.append(decisions)\n",
            ),
        ),
    ),
    Bug(
        "timestamps-above-the-bound",
        "I9: a bound is durable before any timestamp in it is given",
        (
            Edit(
                f"{REGISTRY}/oracle/allocator.py",
                "        if last > self.bound:\n            return None\n",
                "",
            ),
        ),
    ),
    Bug(
        "oracle-below-the-pumps",
        "I9: the oracle starts above every Pump's W",
        (
            Edit(
                f"{REGISTRY}/oracle/tso.py",
                "        self._allocator = Allocator(max(own, recorded, floor))\n",
                "        self._allocator = Allocator(max(own, recorded))\n",
            ),
        ),
    ),
    Bug(
        "timestamps-without-the-lease",
        "I9: one allocator under a fenced lease",
        (
            Edit(
                f"{REGISTRY}/oracle/tso.py",
                "        if self._tenure.holds():\n",
                "        if self._tenure is not None:\n",
            ),
        ),
    ),
    Bug(
        "joiner-not-waited-for",
        "I4: a Pump is online only after the acks of the Drainers that live",
        (
            Edit(
                f"{REGISTRY}/nodes/joins.py",
                "            join.waiting = [drainer for drainer in join.waiting if "
                "drainer in live]\n",
                "            join.waiting = [drainer for drainer in join.waiting if "
                "drainer not in live]\n",
            ),
        ),
    ),
    Bug(
        "offline-before-it-is-read",
        "section 7: a Pump goes offline only when every consumer passed its last commit",
        (
            Edit(
                f"{REGISTRY}/nodes/cluster.py",
                "        if node.behind:\n            return closing\n",
                "        node.behind = ()\n",
            ),
        ),
    ),
    Bug(
        "safe-point-of-the-fastest",
        "section 7: the safe point is the smallest of all consumers",
        (
            Edit(
                f"{REGISTRY}/consumers/consumers.py",
                "        return min(self.read.values(), default=TS_MAX)\n",
                "        return max(self.read.values(), default=TS_MAX)\n",
            ),
        ),
    ),
    Bug(
        "sync-tried-again",
        "section 3: a failed fsync is never retried in the process",
        (
            Edit(
                f"{LIBRARY}/real/disk.py",
                "            except OSError as error:\n"
                "                self._broken = error.strerror or str(error)\n"
                "                fail(self._path, error)\n",
                "            except OSError:\n                return work()\n",
            ),
        ),
    ),
    Bug(
        "mailbox-without-a-bound",
        "I8: every mailbox is bounded by bytes",
        (
            Edit(
                f"{LIBRARY}/mailbox.py",
                "        return len(self._queue) < self._max_count and self._bytes + size "
                "<= self._max_bytes\n",
                "        return len(self._queue) < self._max_count\n",
            ),
        ),
    ),
    Bug(
        "instance-kept-over-a-crash",
        "section 3: a crash restarts a child as a fresh instance",
        (
            Edit(
                f"{LIBRARY}/supervisor.py",
                "            cell: Cell[Any] = Cell(child.ref, child.factory())\n",
                '            kept = self.__dict__.setdefault("kept", {})\n'
                "            if child.ref.name not in kept:\n"
                "                kept[child.ref.name] = child.factory()\n"
                "            cell: Cell[Any] = Cell(child.ref, kept[child.ref.name])\n",
            ),
        ),
    ),
    Bug(
        "fatal-restarted",
        "section 3: corruption and broken invariants are never retried in the process",
        (
            Edit(
                f"{LIBRARY}/supervisor.py",
                "        if isinstance(error, Fatal) or len(self._restarts) > "
                "self._max_restarts:\n",
                "        if len(self._restarts) > self._max_restarts:\n",
            ),
            Edit(
                f"{LIBRARY}/supervisor.py",
                "        if fatal is not None:\n            raise fatal\n",
                "",
            ),
        ),
    ),
    Bug(
        "let-in-again-sent-away",
        "section 5: an operator's order that is done holds nobody",
        (
            Edit(
                f"{REGISTRY}/nodes/cluster.py",
                "        if key[0] != PUMP and node.came_back(status) and not _has_left(status):\n",
                "        if False:\n",
            ),
        ),
    ),
)
