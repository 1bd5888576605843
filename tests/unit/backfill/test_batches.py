"""Batches are bounded by rows and by bytes."""

from __future__ import annotations

import gzip
from pathlib import Path

from tests.unit.downstreams.shapes import column
from tidelog_backfill.snapshot.batches import BATCH_BYTES, batches
from tidelog_backfill.snapshot.dump_source import DumpSource

COLUMNS = (column("id", "int(11)"), column("b", "blob"), column("t", "text"))


def test_so_many_rows_or_so_many_bytes() -> None:
    half = BATCH_BYTES // 2
    rows: list[tuple[object, ...]] = [(n, None, "") for n in range(5)]
    rows += [(5, b"x" * half, "x" * half), (6, b"x", None), (7, None, "x" * (BATCH_BYTES * 3))]
    found = list(batches(iter(rows), COLUMNS, 3))
    assert [[row[0] for row in batch] for batch in found] == [[0, 1, 2], [3, 4, 5], [6, 7]]
    assert list(batches(iter(()), COLUMNS, 3)) == []


def test_a_dumps_large_rows_are_few_at_once(tmp_path: Path) -> None:
    count, size = 20, BATCH_BYTES // 4
    (tmp_path / "d.t-schema.sql").write_text("CREATE TABLE `t` (`id` int, `b` mediumblob);\n")
    rows = b",\n".join(b"(%d,x'%s')" % (n, b"ab" * size) for n in range(count))
    packed = gzip.compress(b"INSERT INTO `t` VALUES\n" + rows + b";\n", 1)
    (tmp_path / "d.t.0.sql.gz").write_bytes(packed)
    source = DumpSource(str(tmp_path))
    (table,) = source.found((), 1).tables
    with source.read(table, source.chunks([table], 1, 1)[0], 1, 5000) as found:
        assert [len(batch) for batch in found] == [4] * 5
