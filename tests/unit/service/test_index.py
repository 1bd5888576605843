"""The IndexStore port on RocksDB."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tidelog.errors import Corrupt, DiskFull, IoFailed
from tidelog.real import index
from tidelog.real.index import BATCH_ENTRIES, RocksIndex


def key(number: int) -> bytes:
    return number.to_bytes(8, "big")


def test_ordered_and_kept_over_a_clean_close(tmp_path: Path) -> None:
    index = RocksIndex(tmp_path / "index")
    index.write([(key(n), b"%d" % n) for n in (5, 1, 300, 2)], [key(2)])
    assert (index.get(key(5)), index.get(key(2))) == (b"5", None)
    assert index.scan(key(1), key(300), 10) == [(key(1), b"1"), (key(5), b"5")]
    assert index.scan(key(0), key(1 << 40), 2) == [(key(1), b"1"), (key(5), b"5")]
    assert index.scan(key(6), key(6), 10) == []
    index.close()
    index.close()
    again = RocksIndex(tmp_path / "index")
    assert again.get(key(300)) == b"300"
    again.delete_range(key(1), key(300))
    assert again.scan(b"", b"\xff" * 9, 10) == [(key(300), b"300")]
    again.close()


def test_large_writes_go_in_pieces(tmp_path: Path) -> None:
    index = RocksIndex(tmp_path / "index")
    count = 3 * BATCH_ENTRIES + 7
    index.write([(key(n), bytes(16)) for n in range(count)])
    assert len(index.scan(key(0), key(count), count + 1)) == count
    index.write([], [key(n) for n in range(count - 1)])
    assert [k for k, _ in index.scan(key(0), key(count), 10)] == [key(count - 1)]
    index.close()


def test_what_can_not_be_opened_is_corrupt(tmp_path: Path) -> None:
    index = RocksIndex(tmp_path / "index")
    with pytest.raises(Corrupt, match="delete this directory"):
        RocksIndex(tmp_path / "index")
    index.close()


def test_an_index_that_a_full_disk_kept_closed_is_not_called_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise Exception("IO error: No space left on device: While open a file: /kv/LOG")

    monkeypatch.setattr(index, "Rdict", full)
    with pytest.raises(DiskFull, match="can't be opened: IO error: No space left") as refused:
        RocksIndex(tmp_path / "index")
    assert refused.value.hint == "free space in the data directory"


class Broken:
    """RocksDB, each call of which fails."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        def fails(*_: object, **__: object) -> None:
            raise RuntimeError(f"{name} is impossible")

        return fails


CALLS: dict[str, Callable[[RocksIndex], object]] = {
    "write": lambda index: index.write([(key(1), b"x")]),
    "get": lambda index: index.get(key(1)),
    "items": lambda index: index.scan(key(0), key(9), 10),
    "delete_range": lambda index: index.delete_range(key(0), key(9)),
    "delete_range ": lambda index: index.clear(),
    "flush": lambda index: index.close(),
}


@pytest.mark.parametrize("call", CALLS)
def test_after_a_failed_call_the_next_start_is_told_to_build_it_anew(
    tmp_path: Path, call: str
) -> None:
    index = RocksIndex(tmp_path / "index")
    whole, index._db = index._db, Broken()  # type: ignore[assignment]
    with pytest.raises(IoFailed, match=f"{call.strip()} is impossible"):
        CALLS[call](index)
    with pytest.raises(IoFailed, match="is impossible"):
        index.behind()
    whole.close()
    with pytest.raises(Corrupt, match="a call of it failed") as stop:
        RocksIndex(tmp_path / "index")
    assert "delete this directory" in stop.value.hint


def test_a_failure_that_cant_be_marked_is_told_with_it(tmp_path: Path) -> None:
    index = RocksIndex(tmp_path / "index")
    whole, index._db = index._db, Broken()  # type: ignore[assignment]
    whole.close()
    shutil.rmtree(tmp_path / "index")
    with pytest.raises(IoFailed, match=r"get is impossible .*can't be marked"):
        index.get(key(1))


def test_a_scan_that_ends_too_early_is_not_taken_for_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an iterator does that meets a damaged block."""
    index = RocksIndex(tmp_path / "index")
    index.write([(key(n), b"x") for n in range(5)])
    first = index._first
    monkeypatch.setattr(index, "_first", lambda start, bounds, limit: first(start, bounds, 2))
    assert len(index.scan(key(0), key(9), 2)) == 2
    with pytest.raises(IoFailed, match="ended too early"):
        index.scan(key(0), key(9), 3)
    index._db.close()
