"""Merge, decoding and batching by themselves: `python -m bench.alone FILE`, a process of its own.

FILE is a `Work` in msgpack; prints an `Alone` as JSON. Nothing is sent and nothing waits, so it is
what the Drainer's processor could do if publishing cost nothing. With the compiled codecs in
PYTHONPATH it measures those.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from bench.feeder import Backlog
from tidelog.decode.decoder import Decoder
from tidelog.decode.transactions import RowTxn
from tidelog.rows import row
from tidelog.schema.model import DdlJob
from tidelog.schema.tracker import SchemaTracker
from tidelog_drainer.config import DrainerConfig
from tidelog_drainer.merge.inbound import Inbound
from tidelog_drainer.merge.merger import Merger, Txn
from tidelog_drainer.publish.batcher import Batch, Batcher
from tidelog_proto.transport_pb2 import PullFrame

ROUNDS = 3
FEED = "bench"
CONFIG = DrainerConfig(feed=FEED)


class Work(msgspec.Struct):
    history: list[DdlJob]
    backlog: Backlog


class Alone(msgspec.Struct):
    """Processor seconds of each stage, of the best round, for all transactions."""

    compiled: bool
    transactions: int
    merge_s: float
    decode_s: float
    batch_s: float


def merged(backlog: Backlog) -> Iterator[list[Txn]]:
    """The backlog as the collector takes it, frame by frame of each Pump in turn."""
    merger = Merger(0)
    inbounds = {pump.subject: Inbound(pump.subject, 0) for pump in backlog.pumps}
    for node in inbounds:
        merger.add(node)
    for at in range(max(len(pump.frames) for pump in backlog.pumps)):
        for pump in backlog.pumps:
            if at < len(pump.frames):
                frame = PullFrame.FromString(pump.frames[at])
                txns, size = inbounds[pump.subject].take(frame)
                merger.push(pump.subject, txns, frame.resolved_ts, size)
        yield merger.take(merger.horizon())


def decoder(history: list[DdlJob]) -> Decoder:
    tracker = SchemaTracker()
    tracker.add_jobs(history)
    made = Decoder(CONFIG, tracker, lambda _: "")
    made.allowed_version = made.passed.base_version = max(job.version for job in history)
    return made


def decoded(decode: Decoder, txns: list[Txn]) -> list[RowTxn]:
    found = [decode.decode(txn) for txn in txns]
    return [txn for txn in found if isinstance(txn, RowTxn)]


def batched(batcher: Batcher, txns: list[RowTxn]) -> Iterator[Batch]:
    """The batches that these fill."""
    for txn in txns:
        if not batcher.takes(txn):
            yield batcher.finish(0, 0)
        batcher.add(txn)


def batches(work: Work) -> Iterator[Batch]:
    """What a Drainer that is always busy publishes."""
    decode, batcher = decoder(work.history), new_batcher()
    for txns in merged(work.backlog):
        yield from batched(batcher, decoded(decode, txns))
    if not batcher.empty:
        yield batcher.finish(0, 0)


def new_batcher() -> Batcher:
    return Batcher(
        FEED, "1:bench", max_messages=CONFIG.batch_messages, max_bytes=CONFIG.batch_bytes
    )


def measure(work: Work) -> Alone:
    best = Alone(str(row.__file__).endswith(".so"), 0, *[float("inf")] * 3)
    for _ in range(ROUNDS):
        decode, batcher = decoder(work.history), new_batcher()
        took = [0.0, 0.0, 0.0]
        count = 0
        source = merged(work.backlog)
        while True:
            began = time.process_time()
            txns = next(source, None)
            took[0] += time.process_time() - began
            if txns is None:
                break
            began = time.process_time()
            rows = decoded(decode, txns)
            took[1] += time.process_time() - began
            began = time.process_time()
            for _batch in batched(batcher, rows):
                pass
            took[2] += time.process_time() - began
            count += len(rows)
        best.transactions = count
        best.merge_s = min(best.merge_s, took[0])
        best.decode_s = min(best.decode_s, took[1])
        best.batch_s = min(best.batch_s, took[2])
    return best


if __name__ == "__main__":
    found = measure(msgspec.msgpack.decode(Path(sys.argv[1]).read_bytes(), type=Work))
    sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
