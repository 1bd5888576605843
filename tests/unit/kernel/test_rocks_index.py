"""RocksDB when its files are damaged under it: nothing is taken for nothing (I7)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tidelog.errors import Corrupt, IoFailed
from tidelog.real.index import RocksIndex

COUNT = 20_000


def key(number: int) -> bytes:
    return b"k%06d" % number


def filled(place: Path) -> RocksIndex:
    index = RocksIndex(place)
    for start in range(0, COUNT, 500):
        index.write([(key(n), b"value of %d" % n) for n in range(start, start + 500)])
    index.close()
    return RocksIndex(place)


def damage(place: Path) -> None:
    """Some blocks in the middle of each table."""
    tables = list(place.glob("*.sst"))
    assert tables
    for table in tables:
        data = bytearray(table.read_bytes())
        for at in range(len(data) // 4, len(data) // 2):
            data[at] ^= 0x55
        with table.open("r+b") as file:
            file.write(data)


def get_all(index: RocksIndex) -> None:
    assert all(index.get(key(n)) == b"value of %d" % n for n in range(COUNT))


def scan_all(index: RocksIndex) -> None:
    """Had it ended at the damage as if nothing followed, whoever read it would miss the rest."""
    assert len(index.scan(b"k", b"l", COUNT + 1)) == COUNT


@pytest.mark.parametrize("read", [get_all, scan_all])
def test_damage_is_met_as_an_error_and_the_index_is_not_opened_again(
    tmp_path: Path, read: Callable[[RocksIndex], None]
) -> None:
    place = tmp_path / "kv"
    read(filled(place))
    index = RocksIndex(place)
    damage(place)
    assert not index.behind()
    with pytest.raises(IoFailed):
        read(index)
    with pytest.raises(IoFailed):
        index.behind()
    with pytest.raises(Corrupt):
        RocksIndex(place)


def test_an_index_that_waits_for_its_flush_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = RocksIndex(tmp_path / "kv")
    assert not index.behind()
    monkeypatch.setattr("tidelog.real.index.BEHIND", 0)
    assert index.behind()
    index.close()
