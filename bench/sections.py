"""What the page says about each measurement, and where it stands."""

from __future__ import annotations

from typing import NamedTuple

from bench import growth
from bench.course import LIMITS
from bench.progress import LONG_S
from tidelog.lease import TAKEOVER_S


class About(NamedTuple):
    """`name`: of the measurement, as `python -m bench` takes it."""

    name: str
    title: str
    text: str


class Chapter(NamedTuple):
    title: str
    sections: tuple[About, ...]


CHAPTERS = (
    Chapter(
        "Limits of this machine",
        (
            About(
                LIMITS,
                "Building blocks by themselves",
                "Disk, NATS, gRPC, JetStream and MariaDB, by the plain libraries and with nothing"
                " of ours. The figures below stand beside one of these, or beside one of their "
                "own.",
            ),
        ),
    ),
    Chapter(
        "Throughput",
        (
            About(
                "tso",
                "Timestamps",
                "The embedded oracle, 64 callers. One request asks for all who wait, so it gives "
                "more timestamps than NATS answers calls.",
            ),
            About(
                "pump",
                "Writing to a Pump",
                "Durable binlogs of one Pump, Prewrites and Commits, each answered after "
                "fdatasync. The PumpClient sends what its callers have waiting in one message.",
            ),
            About(
                "pull",
                "Reading from a Pump",
                "A backlog read as a Drainer reads it; the limit counts answers of 64 KiB, each of "
                "which brings many transactions.",
            ),
            About(
                "rebuild",
                "A Pump's start",
                "With the index deleted, so that the whole log is read again, and with it in "
                "place.",
            ),
            About(
                "drain",
                "Merge, decode and publish",
                "A Drainer behind three Pumps whose answers are ready. The limit: the same "
                "batches, ready made, published by nats-py. `plain` is Python, `mypyc` has the "
                "compiled codecs that a wheel brings. The clock runs from the first transaction "
                f"that is published until all are, or for {LONG_S:g} s.",
            ),
            About(
                "backlog",
                "A backlog into MariaDB",
                "From two Pumps to the last visible row, and each half of that way by itself.",
            ),
            About(
                "apply",
                "Rows into MariaDB",
                "From the relay log alone, and through everything on shared cores. The limit is "
                "what LOAD DATA of four clients makes of the same rows.",
            ),
        ),
    ),
    Chapter(
        "Latency",
        (
            About(
                "idle",
                "To a reader of the feed",
                "From a Commit's ack until a subscriber has it, when nothing else happens. The "
                "limit: the steps of the way, each measured alone.",
            ),
            About(
                "latency",
                "To a row in MariaDB",
                "From a Commit's ack until the row is visible, at three rates; `on one Pump`: the "
                "other two have nothing and are waited for all the same.",
            ),
        ),
    ),
    Chapter(
        "Memory",
        (
            About(
                "memory",
                "A Pump and a Drainer",
                "What a process takes more than before, at most. The limit is what the same "
                "process takes with nothing to do. Here each is of a thirtieth of its size; the "
                "whole ones, a transaction of 1 GiB for one, and what is missed of their aims are "
                "in [the full run](full-run.md). What gRPC brings is held three times by grpc.aio, "
                "so it alone follows its size, and its aim is one of 1 GiB: it is missed there.",
            ),
            About(
                "apply-memory",
                "An Applier",
                "The same of one large transaction into MariaDB.",
            ),
        ),
    ),
    Chapter(
        "Recovery",
        (
            About(
                "recovery",
                "Killed under load",
                "SIGKILL, and started again at once: from the kill until a row that was begun "
                "after it is visible in MariaDB, from every Pump. Two Pumps, each with a writer. "
                "The limit: how long the same process takes from its start until it is ready when"
                " nothing else happens; of a Drainer that is not started again, the lease of "
                f"{TAKEOVER_S:g} s, at whose end the one that stands by takes over.",
            ),
        ),
    ),
    Chapter(
        "Growth",
        (
            About(
                "growth",
                "With Pumps, tables, columns and rows",
                "The measurements above with other parameters, each point beside its own limit. A "
                "table's first change writes its definition, too, which is what many tables cost; "
                "memory must not follow the size of a transaction. One of up to 16 MiB "
                "(`spool-above`) a Drainer holds whole, six times in all; a larger one is in a "
                "file, and takes less.",
            ),
        ),
    ),
)
CURVES = {
    "drainer": growth.THROUGHPUT,
    "applier": growth.APPLIER,
    "latency": growth.LATENCY,
    "memory": growth.MEMORY,
}
"""The pictures of what grows, by the ends of their names."""
