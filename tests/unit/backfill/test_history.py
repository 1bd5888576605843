"""The DDL history from where it lies, also from the file of a registry that is gone."""

from __future__ import annotations

import asyncio
import struct
from pathlib import Path

import msgspec
import pytest
from crc32c import crc32c

from tests.fixtures import capture
from tidelog.errors import BadInput, ConfigError, Corrupt
from tidelog.schema.tracker import SchemaTracker
from tidelog_backfill.replay.history import schema_history


def read(url: str) -> SchemaTracker:
    return asyncio.run(schema_history(url))


def written(directory: Path, *, torn: bytes = b"", synced: int = 0) -> str:
    """As the registry writes the jobs of set-a."""
    raw = msgspec.json.decode(capture.ddl_history_json("set-a"), type=list[msgspec.Raw])
    bodies = [bytes(one) for one in raw]
    data = b"".join(struct.pack("<II", len(one), crc32c(one)) + one for one in bodies)
    (directory / "ddl-history.log").write_bytes(data + torn)
    (directory / "ddl-history.synced").write_bytes((synced or len(data)).to_bytes(8, "little"))
    return f"file:{directory}/ddl-history.log"


def test_a_registrys_file_has_what_it_was_told(tmp_path: Path) -> None:
    (tmp_path / "jobs.json").write_bytes(capture.ddl_history_json("set-a"))
    same = read(f"file:{tmp_path}/jobs.json")
    found = read(written(tmp_path, torn=b"\x05\x00\x00"))
    assert found.steps() == same.steps()
    assert found.steps()


def test_a_registrys_file_that_lost_what_was_synced_is_corrupt(tmp_path: Path) -> None:
    with pytest.raises(Corrupt, match="offset"):
        read(written(tmp_path, torn=bytes(9), synced=1 << 40))


def test_a_history_has_to_be_named_and_to_be_there(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="without the DDL history"):
        read("")
    with pytest.raises(ConfigError):
        read(f"file:{tmp_path}/ddl-history.log")
    with pytest.raises(ConfigError, match="registry's"):
        read("embedded")
