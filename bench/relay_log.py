"""A load as an Applier's relay log has it: made by the Drainer's own decoder and batcher, and by
the Applier's own assembler and log, with nothing between them."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from bench.alone import FEED, Work, batches
from bench.frames import prepared
from bench.shapes import Load, encoded
from bench.tables import DATABASE
from tidelog.ports import Message
from tidelog.real.clock import RealClock
from tidelog.real.disk import RealDisk
from tidelog.relay import RelayLog
from tidelog.timestamps import compose
from tidelog_applier.read.assembler import BatchAssembler, Moved

DIRECTORY = "relay"
CLUSTER = "bench"


class Written(NamedTuple):
    """The position before the load, and behind it."""

    after: int
    end: int
    bytes: int


async def write(data_dir: Path, load: Load) -> Written:
    """The relay of an Applier whose data directory this is."""
    first_ts = compose(RealClock().wall_ms()) - (1 << 40)
    changes = (encoded(load.table, transaction) for transaction in load.measured)
    made = prepared(CLUSTER, ("fed",), first_ts, load.table, changes, 0)
    log = RelayLog(RealDisk(data_dir), DIRECTORY, feed=FEED)
    after = first_ts - 1
    await log.open(after)
    assembler = BatchAssembler(FEED, after)
    total = 0

    for batch in batches(Work(made.history, made.backlog)):
        messages = [
            Message(one.subject, one.data, one.headers) for chunk in batch.chunks for one in chunk
        ]
        structures = {(DATABASE, one.name, one.version): one for one in batch.structures.values()}
        items = [item for item in assembler.feed(messages) if not isinstance(item, Moved)]
        total += sum(len(message.data) for message in messages)
        await log.append(items, structures)
    log.close()
    return Written(after, made.txns[-1][0], total)
