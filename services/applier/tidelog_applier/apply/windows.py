"""What came of the stream, cut into what is handed to the lanes at once. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tidelog.relay import Batch, LargeBatch
from tidelog_applier.read import Moved, Taken

Cut = list[Batch] | LargeBatch | Moved


def cut(items: Iterable[Taken], max_rows: int, max_bytes: int) -> Iterator[Cut]:
    """In order: runs of batches until one is full, with DDLs and large batches by themselves. A
    batch is never cut, however large."""
    run: list[Batch] = []
    rows = size = 0
    for item in items:
        alone = not isinstance(item, Batch) or bool(item.ddls)
        if run and (alone or rows >= max_rows or size >= max_bytes):
            yield run
            run, rows, size = [], 0, 0
        if not isinstance(item, Batch):
            yield item
        elif item.ddls:
            yield [item]
        else:
            run.append(item)
            rows += sum(txn.rows for txn in item.txns)
            size += item.size
    if run:
        yield run
