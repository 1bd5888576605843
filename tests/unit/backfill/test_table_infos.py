"""A structure into TiDB's form and back, for every table of a recorded history."""

from __future__ import annotations

import msgspec

from tests.fixtures import capture
from tidelog.schema.history import TableAt, unpacked
from tidelog.schema.structure import TableStructure, structure
from tidelog.schema.tracker import SchemaTracker
from tidelog_backfill.replay.table_infos import table_info


def test_a_structure_comes_back() -> None:
    tracker = SchemaTracker()
    tracker.add_jobs(capture.ddl_history("set-a"))
    shapes = [structure(unpacked(one)) for one in tracker.tables()]
    plain = [one for one in shapes if one.kind == "table"]
    assert len(plain) > 50
    for shape in plain:
        info = table_info(shape, 9)
        assert structure(TableAt("db", shape.name, shape.version, info)) == told(shape)


def told(shape: TableStructure) -> TableStructure:
    """What a database tells of it."""
    columns = tuple(
        msgspec.structs.replace(column, id=number) for number, column in enumerate(shape.columns, 1)
    )
    keys = tuple(key for key in shape.keys if all(key.columns))
    return msgspec.structs.replace(
        shape, columns=columns, keys=keys, foreign_keys=(), partitioning=None, id=9
    )
