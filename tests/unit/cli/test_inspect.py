"""`tidelog inspect`: what it says of good files, and where it finds what is bad."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path

import pytest
from crc32c import crc32c
from typer.testing import CliRunner

from tests.fixtures.capture import DATA
from tests.fixtures.test_pump_vlog import original_log
from tests.unit.pump.rig import commit, prewrite, rollback
from tidelog import record
from tidelog.errors import BadInput
from tidelog.payload import fake
from tidelog.real.disk import RealDisk
from tidelog_cli import inspect as module
from tidelog_cli.app import app
from tidelog_cli.inspect import WINDOW_BYTES, inspect
from tidelog_pump.log.files import name
from tidelog_pump.log.segments import Segments

PAYLOADS = [prewrite(10, bytes(300)), commit(10, 20), rollback(15), fake(30), prewrite(25)]


def segment(*payloads: bytes, footer: int | None = None) -> bytes:
    framed = b"".join(map(record.frame, payloads))
    return framed if footer is None else framed + record.footer(footer)


def put(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def test_what_a_file_holds(tmp_path: Path) -> None:
    data = segment(*PAYLOADS, footer=30)
    (one,) = inspect(put(tmp_path / "000000.vlog", data)).files
    assert (one.records, one.bytes, one.first_ts, one.last_ts) == (5, len(data), 10, 25)
    assert (one.max_ts, one.footer, one.bad, one.torn) == (30, 30, "", 0)
    assert one.kinds == {"prewrite": 2, "commit": 1, "rollback": 1, "fake": 1}
    found = inspect(tmp_path / "000000.vlog", 10).files[0].found
    assert [(f.kind, f.start_ts, f.commit_ts, f.offset) for f in found] == [
        ("prewrite", 10, 0, 0),
        ("commit", 10, 20, len(record.frame(PAYLOADS[0]))),
    ]


def test_records_larger_than_what_is_read_at_once(tmp_path: Path) -> None:
    large = prewrite(5, random.Random(1).randbytes(3 * WINDOW_BYTES))
    data = bytearray(segment(commit(1, 2), large, commit(3, 4)))
    path = put(tmp_path / "000000.vlog", bytes(data))
    (one,) = inspect(path).files
    assert (one.records, one.max_ts, one.bad) == (3, 5, "")
    data[len(data) // 2] ^= 1
    (one,) = inspect(put(path, bytes(data))).files
    where = len(segment(commit(1, 2)))
    assert (one.records, one.bad, one.bad_offset) == (1, "its checksum does not match", where)
    (one,) = inspect(put(path, bytes(data[: len(data) // 2]))).files
    assert (one.bad, one.bad_offset) == ("the file ends within the record", where)


def test_every_bit_flip_and_every_cut_is_found(tmp_path: Path) -> None:
    data = segment(prewrite(10), commit(10, 20), footer=20)
    path = tmp_path / "000000.vlog"
    ends = {0, len(segment(prewrite(10))), len(segment(prewrite(10), commit(10, 20)))}
    for cut in range(len(data)):
        (one,) = inspect(put(path, data[:cut])).files
        assert bool(one.bad) == (cut not in ends), cut
        assert not one.bad or one.bad_offset in ends
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        (one,) = inspect(put(path, bytes(flipped))).files
        assert one.bad, bit
        assert one.bad_offset <= bit // 8


def test_a_payload_that_is_no_binlog_is_bad(tmp_path: Path) -> None:
    for payload in (b"\xff" * 20, b"\x08\x07\x10\x05", b"\x08\x00"):
        (one,) = inspect(put(tmp_path / "1.vlog", segment(prewrite(1), payload))).files
        assert one.bad == "the payload is no Binlog of a known type"
        assert one.bad_offset == len(segment(prewrite(1)))


def test_fields_in_another_order_are_read_too(tmp_path: Path) -> None:
    payload = commit(10, 20)
    moved = payload[2:] + payload[:2]
    (one,) = inspect(put(tmp_path / "000000.vlog", segment(moved))).files
    assert (one.bad, one.max_ts, one.kinds["commit"]) == ("", 20, 1)


def written(directory: Path, *, footers: bool = False) -> list[Path]:
    """Segments of our own, by the Pump's code; without `footers` one that still is open."""

    async def main() -> None:
        size = 200 if footers else 1 << 20
        segments = Segments(RealDisk(directory), segment_bytes=size, sync=True)
        await segments.open()
        for n in range(1, 9):
            payload = prewrite(n, bytes(100))
            await segments.rotate(len(payload))
            await segments.append([record.header(payload), payload], n)
        segments.close()

    asyncio.run(main())
    return sorted((directory / "value").glob("*.vlog"))


def test_what_lies_beyond_the_synced_offset_is_no_damage(tmp_path: Path) -> None:
    (path,) = written(tmp_path)
    with path.open("ab") as file:
        file.write(record.frame(prewrite(9))[:-3])
    found = inspect(tmp_path)
    assert not found.bad
    assert found.files[0].torn == len(record.frame(prewrite(9))) - 3
    data = bytearray(path.read_bytes())
    data[40] ^= 1
    put(path, bytes(data))
    found = inspect(tmp_path)
    assert (found.bad, found.files[0].bad_offset) == (True, 0)
    # Nothing says what is synced: then every bad record is one.
    (tmp_path / "value" / "synced").unlink()
    put(path, path.read_bytes()[:-1])
    assert inspect(tmp_path).bad


def test_segments_that_are_gone_or_shorter_are_told(tmp_path: Path) -> None:
    paths = written(tmp_path, footers=True)
    assert len(paths) > 4
    assert not inspect(tmp_path).bad
    paths[1].unlink()
    data = paths[2].read_bytes()
    put(paths[2], data[: -record.FOOTER_BYTES])
    bad = {Path(one.file).name: one.bad for one in inspect(tmp_path).files if one.bad}
    assert bad == {
        paths[1].name: "it was written and is gone",
        paths[2].name: f"it was closed with {len(data)} bytes",
    }
    closed = bytearray((tmp_path / "value" / "closed").read_bytes())
    closed[3] ^= 1
    put(tmp_path / "value" / "closed", bytes(closed))
    assert [one.bad for one in inspect(tmp_path).files if one.bad] == [
        "its checksum does not match"
    ]
    assert crc32c(bytes(closed[:-4])) != int.from_bytes(closed[-4:], "little")
    for left in (1, 3):
        put(tmp_path / "value" / "closed", bytes(closed[:left]))
        assert [one.bad for one in inspect(tmp_path).files if one.bad] == [
            "its checksum does not match"
        ]


@pytest.mark.parametrize("purged", [True, False])
@pytest.mark.parametrize("when", ["listed", "opened", "closed read"])
def test_a_gc_that_deletes_meanwhile_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str, *, purged: bool
) -> None:
    """A segment that goes between two looks at it: by the gc, which writes its record first, or
    without a record, which is a loss."""
    paths = written(tmp_path, footers=True)

    def vanish() -> None:
        if purged:
            put(tmp_path / "purged.json", b'{"ts":2,"first":2,"ended":[],"lost":[]}')
        paths[1].unlink(missing_ok=True)

    def meanwhile(name: str, before: bool) -> None:
        real = getattr(module, name)

        def and_then(*args: object) -> object:
            if before:
                vanish()
            answer = real(*args)
            vanish()
            return answer

        monkeypatch.setattr(module, name, and_then)

    meanwhile(
        *{"listed": ("_segments", False), "opened": ("_file", True)}.get(when, ("_closed", False))
    )
    found = inspect(tmp_path)
    bad = [(one.file, one.bad) for one in found.files if one.bad]
    assert bad == ([] if purged else [(str(paths[1]), "it was written and is gone")])
    assert found.bad == (not purged)


def test_one_that_closed_names_no_more_is_no_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The catalog is saved before the files go; a purge record that is read late is not needed."""
    paths = written(tmp_path, footers=True)
    real = module._closed
    catalogs: list[Path] = []

    def once(folder: Path) -> object:
        if catalogs:
            return {}
        catalogs.append(folder)
        closed = real(folder)
        paths[1].unlink()
        return closed

    monkeypatch.setattr(module, "_closed", once)
    assert not inspect(tmp_path).bad


def test_the_originals_files_and_only_reading(tmp_path: Path) -> None:
    assert (DATA / "set-a").is_dir()
    path = put(tmp_path / name(0), original_log("set-a"))
    before = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*")}
    found = inspect(tmp_path)
    assert (found.bad, found.files[0].records) == (False, 4309)
    assert {k: found.files[0].kinds[k] for k in ("prewrite", "commit")} == {
        "prewrite": 2145,
        "commit": 2101,
    }
    assert {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*")} == before
    assert Path(found.files[0].file) == path


def test_the_command(tmp_path: Path) -> None:
    runner = CliRunner()
    path = put(tmp_path / "value" / "000000.vlog", segment(*PAYLOADS))
    good = runner.invoke(app, ["inspect", str(tmp_path), "--json", "--ts", "20"])
    assert good.exit_code == 0
    told = json.loads(good.stdout)
    assert (told["bad"], told["files"][0]["records"]) == (False, 5)
    assert told["files"][0]["found"][0]["commit_ts"] == 20
    assert "5 records" in runner.invoke(app, ["inspect", str(path)]).stdout
    put(path, path.read_bytes()[:-1])
    bad = runner.invoke(app, ["inspect", "--dir", str(tmp_path)])
    assert bad.exit_code == 70
    assert "BAD at offset" in bad.stdout
    assert runner.invoke(app, ["inspect", str(tmp_path / "none")]).exit_code == 64
    with pytest.raises(BadInput):
        inspect(tmp_path / "none")


def test_resolve_needs_one_verdict_and_somebody_who_agrees(tmp_path: Path) -> None:
    runner = CliRunner()
    assert runner.invoke(app, ["resolve", "5", "--dir", str(tmp_path)]).exit_code == 64
    both = ["resolve", "5", "--commit", "9", "--rollback", "--dir", str(tmp_path)]
    assert runner.invoke(app, both).exit_code == 64
    for ts in ("0", "-1", str(1 << 63)):  # a rollback to a Pump, or nothing
        no_ts = runner.invoke(
            app, ["resolve", "5", "--commit", ts, "--yes", "--dir", str(tmp_path)]
        )
        assert no_ts.exit_code == 64
    nowhere = ["resolve", "5", "--rollback", "--yes", "--dir", str(tmp_path)]
    assert runner.invoke(app, nowhere).exit_code == 69


def test_a_purge_record_that_can_t_be_read_gives_up_no_segment(tmp_path: Path) -> None:
    paths = written(tmp_path, footers=True)
    paths[0].unlink()
    gone = [(str(paths[0]), "it was written and is gone")]
    for kept, bad in ((b'{"first":1}', []), (b"{", gone), (b'{"first":"all"}', gone)):
        put(tmp_path / "purged.json", kept)
        assert [(one.file, one.bad) for one in inspect(tmp_path).files if one.bad] == bad
