"""The value log: rotation, footers, reading back, torn tails, damage (B.1, C.5)."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from crc32c import crc32c

from tests.unit.pump.rig import commit, prewrite
from tidelog import failpoints, record
from tidelog.errors import Corrupt, InvariantBroken, Purged
from tidelog.real.disk import RealDisk
from tidelog.record_walk import READ_BYTES, Step, walk
from tidelog_pump.index import keys
from tidelog_pump.log import opening
from tidelog_pump.log.files import SYNCED, name
from tidelog_pump.log.place import Pointer
from tidelog_pump.log.segments import Segments

START = Pointer(0, 0)


async def opened(root: Path, segment_bytes: int = 1 << 30) -> Segments:
    segments = Segments(RealDisk(root), segment_bytes=segment_bytes, sync=True)
    await segments.open()
    return segments


async def append(segments: Segments, *payloads: bytes, max_ts: int = 1) -> list[Pointer]:
    frames = [record.frame(payload) for payload in payloads]
    await segments.rotate(sum(map(len, frames)))
    fid, offset = await segments.append(frames, max_ts)
    found = []
    for frame in frames:
        found.append(Pointer(fid, offset))
        offset += len(frame)
    return found


async def contents(segments: Segments, start: Pointer | None = None) -> list[bytes]:
    return [bytes(p) async for records in segments.scan(start or START) for _, p in records]


PAYLOADS = [prewrite(n, bytes([n]) * n * 40) for n in range(1, 40)]


def test_small_segments_rotate_and_read_back(tmp_path: Path) -> None:
    async def main() -> None:
        segments = await opened(tmp_path, 1000)
        pointers = [(await append(segments, p, max_ts=n))[0] for n, p in enumerate(PAYLOADS)]
        assert len(segments.fids) > 10
        assert pointers == sorted(pointers)
        for again in (segments, await opened(tmp_path, 1000)):
            assert [again.payload(p) for p in pointers] == PAYLOADS
            assert await contents(again) == PAYLOADS
            assert await contents(again, pointers[17]) == PAYLOADS[17:]
        closed = (tmp_path / name(3)).read_bytes()
        assert record.parse_footer(closed) == max(n for n, p in enumerate(pointers) if p.fid == 3)

    asyncio.run(main())


def test_records_across_the_read_window(tmp_path: Path) -> None:
    async def main() -> None:
        large = [
            prewrite(n, bytes([n]) * size)
            for n, size in enumerate(
                (READ_BYTES - 60, 3 * READ_BYTES, 10, READ_BYTES // 2, READ_BYTES // 2, 7), start=1
            )
        ]
        segments = await opened(tmp_path)
        await append(segments, *large)
        assert await contents(segments) == large
        assert await contents(await opened(tmp_path)) == large

    asyncio.run(main())


@pytest.mark.parametrize("cut", [1, 5, 16, 30])
def test_a_torn_tail_beyond_the_synced_offset_is_cut(tmp_path: Path, cut: int) -> None:
    async def main() -> None:
        segments = await opened(tmp_path)
        await append(segments, *PAYLOADS)
        end = segments.end.offset
        segments.close()
        torn = record.frame(prewrite(99, b"never acked"))
        with (tmp_path / name(0)).open("ab") as file:
            file.write(torn[:-cut])
        again = await opened(tmp_path)
        assert again.end == (0, end)
        assert again.truncated_bytes == len(torn) - cut
        assert (tmp_path / name(0)).stat().st_size == end
        assert await contents(again) == PAYLOADS

    asyncio.run(main())


def test_a_whole_record_beyond_the_synced_offset_is_kept(tmp_path: Path) -> None:
    async def main() -> None:
        segments = await opened(tmp_path)
        await append(segments, *PAYLOADS)
        segments.close()
        with (tmp_path / name(0)).open("ab") as file:
            file.write(record.frame(commit(1, 2)))
        assert await contents(await opened(tmp_path)) == [*PAYLOADS, commit(1, 2)]

    asyncio.run(main())


def test_damage_before_the_synced_offset_names_file_and_offset(tmp_path: Path) -> None:
    async def main() -> None:
        segments = await opened(tmp_path)
        pointers = await append(segments, *PAYLOADS)
        segments.close()
        place = tmp_path / name(0)
        data = bytearray(place.read_bytes())
        data[pointers[20].offset + 20] ^= 1
        place.write_bytes(data)
        # Nobody reads it at the start; whoever reads it, in order or by itself, is told.
        again = await opened(tmp_path)
        where = rf"000000\.vlog.*{pointers[20].offset}"
        with pytest.raises(Corrupt, match=where):
            await contents(again)
        with pytest.raises(Corrupt, match=where):
            again.payload(pointers[20])
        assert await contents(again, pointers[21]) == PAYLOADS[21:]
        again.close()
        # The synced offset of the time before max_ts stood beside it: all of it is read again.
        write_old_hint(tmp_path, 0, len(data))
        with pytest.raises(Corrupt, match=where):
            await opened(tmp_path)
        place.write_bytes(data[: pointers[30].offset])
        with pytest.raises(Corrupt):
            await opened(tmp_path)
        place.unlink()
        # Nothing at all is no damage of a file, but the synced offset says that there was one.
        with pytest.raises(Corrupt):
            await opened(tmp_path)

    asyncio.run(main())


def write_old_hint(root: Path, fid: int, offset: int) -> None:
    body = struct.pack("<IQ", fid, offset)
    (root / SYNCED).write_bytes(body + struct.pack("<I", crc32c(body)))


@pytest.mark.parametrize("hint", ["ours", "old", "none", "of an earlier append", "garbage"])
def test_the_footer_has_the_largest_timestamp_over_restarts(tmp_path: Path, hint: str) -> None:
    async def main() -> None:
        segments = await opened(tmp_path, 4000)
        await append(segments, prewrite(1), max_ts=1)
        await append(segments, prewrite(900), max_ts=900)
        earlier = (tmp_path / SYNCED).read_bytes()
        await append(segments, prewrite(1000 if hint == "of an earlier append" else 3), max_ts=1000)
        end = segments.end
        segments.close()
        match hint:
            case "old":
                write_old_hint(tmp_path, *end)
            case "none":
                (tmp_path / SYNCED).unlink()
            case "of an earlier append":
                (tmp_path / SYNCED).write_bytes(earlier)
            case "garbage":
                (tmp_path / SYNCED).write_bytes(b"x" * 24)
        again = await opened(tmp_path, 4000)
        assert again.end == end
        await append(again, prewrite(5), max_ts=5)
        await again.rotate(1 << 20)
        largest = 1000 if hint in ("ours", "of an earlier append") else 900
        assert record.parse_footer((tmp_path / name(0)).read_bytes()) == largest
        again.close()

    asyncio.run(main())


def test_a_long_log_is_opened_and_read_while_the_loop_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        segments = await opened(tmp_path)
        for number in range(6):
            await append(segments, prewrite(number + 1, bytes(READ_BYTES)))
        segments.close()
        (tmp_path / SYNCED).unlink()
        steps = 0

        async def others() -> None:
            nonlocal steps
            while True:
                await asyncio.sleep(0)
                steps += 1

        going = asyncio.create_task(others())
        reads = count_reads(monkeypatch)
        again = await opened(tmp_path)
        assert min(steps, len(reads)) >= 6
        reads.clear()
        again.close()
        await again.open()
        assert reads == []  # all of it is known to be synced
        again.close()
        going.cancel()

    asyncio.run(main())


def count_reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Offsets of the steps that a start reads from now on."""
    reads: list[int] = []

    def watched(read: Callable[[int, int], bytes], begin: int, size: int) -> Iterator[Step]:
        for step in walk(read, begin, size):
            reads.append(step.end)
            yield step

    monkeypatch.setattr(opening, "walk", watched)
    return reads


def test_closed_segments_are_listed_and_removed_for_good(tmp_path: Path) -> None:
    async def main() -> None:
        segments = await opened(tmp_path, 1000)
        pointers = [(await append(segments, p, max_ts=n))[0] for n, p in enumerate(PAYLOADS)]
        closed = segments.closed()
        assert [c.fid for c in closed] == segments.fids[:-1]
        for fid, max_ts, size in closed:
            assert max_ts == max(n for n, p in enumerate(pointers) if p.fid == fid)
            assert size == (tmp_path / name(fid)).stat().st_size
        scanning = segments.scan(START)
        await anext(scanning)
        with pytest.raises(InvariantBroken):
            await segments.remove([segments.fids[-1]])
        await segments.remove([0, 2, 77])
        await segments.remove([0])
        assert segments.fids[:2] == [1, 3]
        with pytest.raises(Purged):
            [step async for step in scanning]
        with pytest.raises(Purged):
            segments.payload(pointers[0])
        kept = [
            (p, pointer)
            for p, pointer in zip(PAYLOADS, pointers, strict=True)
            if pointer.fid not in (0, 2)
        ]
        for again in (segments, await opened(tmp_path, 1000)):
            assert await contents(again, again.start) == [p for p, _ in kept]
            assert [again.payload(pointer) for _, pointer in kept] == [p for p, _ in kept]
            assert again.closed() == [c for c in closed if c.fid not in (0, 2)]

    asyncio.run(main())


def test_a_lost_segment_is_removed_as_if_it_were_there(tmp_path: Path) -> None:
    async def main() -> None:
        segments = await opened(tmp_path, 1000)
        pointers = [(await append(segments, p))[0] for p in PAYLOADS]
        segments.close()
        (tmp_path / name(0)).unlink()
        segments = await opened(tmp_path, 1000)
        assert list(segments.damaged) == [name(0)]
        assert segments.start == START
        await segments.remove([0])
        left = [p for p, at in zip(PAYLOADS, pointers, strict=True) if at.fid > 0]
        for again in (segments, await opened(tmp_path, 1000)):
            assert not again.damaged
            assert again.start == Pointer(1, 0)
            assert await contents(again, again.start) == left

    asyncio.run(main())


def test_damage_in_an_older_segment_stops_scan_and_read(tmp_path: Path) -> None:
    async def main() -> None:
        segments = await opened(tmp_path, 1000)
        pointers = [(await append(segments, p))[0] for p in PAYLOADS]
        segments.close()
        hurt = pointers[5]
        place = tmp_path / name(hurt.fid)
        data = bytearray(place.read_bytes())
        data[hurt.offset + 40] ^= 1
        place.write_bytes(data)
        again = await opened(tmp_path, 1000)
        with pytest.raises(Corrupt):
            again.payload(hurt)
        with pytest.raises(Corrupt, match=f"{hurt.fid:06d}"):
            await contents(again)

    asyncio.run(main())


def test_pointers_are_twelve_bytes_and_in_order() -> None:
    pointers = [Pointer(0, 5), Pointer(0, 1 << 40), Pointer(1, 0)]
    assert [len(keys.pack_pointer(p)) for p in pointers] == [12, 12, 12]
    assert [keys.unpack_pointer(keys.pack_pointer(p)) for p in pointers] == sorted(pointers)


def test_what_an_append_has_written_and_not_synced_is_not_readable(tmp_path: Path) -> None:
    """A file grows before its sync; a scan beside the writer ends where `readable` was."""

    async def main() -> None:
        segments = await opened(tmp_path, 1000)
        for payload in PAYLOADS[:5]:
            await append(segments, payload)
        before, seen = segments.readable, Pointer(0, 0)
        assert before == segments.end

        def look() -> None:
            nonlocal seen
            seen = segments.readable
            failpoints.disarm_all()

        failpoints.arm("pump.segments.after_sync", look)
        await append(segments, PAYLOADS[5])
        assert seen in (before, Pointer(before.fid + 1, 0))
        assert segments.readable == segments.end > before
        found = [bytes(p) async for step in segments.scan(START, before) for _, p in step]
        assert found == PAYLOADS[:5]
        again = await opened(tmp_path, 1000)
        assert again.readable == again.end

    asyncio.run(main())
