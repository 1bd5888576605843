"""The relay log: what the Applier read of its feed, on its own disk before any of it is applied.

    log = RelayLog(disk, "relay", feed="shop", cluster_id=7, max_file_bytes=10 << 20)
    await log.open(checkpoint.commit_ts)
    async for batch in log.batches(checkpoint.commit_ts):     # what an earlier life left
        ...
    for batch in await log.append(incoming, structures):      # durable when it returns
        ...
    await log.purge(checkpoint.commit_ts)

`Spool` has the same face, for who has no relay: it keeps large batches only, and only as long as
this process lives. What a directory holds without a log being open on it: `survey`.
"""

from tidelog.relay.batches import (
    Batch,
    Handed,
    Incoming,
    LargeBatch,
    Piece,
    Structures,
    TableKey,
    Whole,
)
from tidelog.relay.log import BatchLog, RelayLog
from tidelog.relay.reading import RelayGap
from tidelog.relay.spool import Spool
from tidelog.relay.survey import Survey, survey

__all__ = [
    "Batch",
    "BatchLog",
    "Handed",
    "Incoming",
    "LargeBatch",
    "Piece",
    "RelayGap",
    "RelayLog",
    "Spool",
    "Structures",
    "Survey",
    "TableKey",
    "Whole",
    "survey",
]
