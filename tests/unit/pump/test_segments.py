"""The value log: rotation, footers, reading back, torn tails, damage (B.1, C.5)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.unit.pump.rig import commit, prewrite
from tidelog import record
from tidelog.errors import Corrupt
from tidelog.real.disk import RealDisk
from tidelog_pump import index
from tidelog_pump.index import Pointer
from tidelog_pump.segments import READ_BYTES, Segments, name

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
        with pytest.raises(Corrupt, match=rf"000000\.vlog.*{pointers[20].offset}"):
            await opened(tmp_path)
        place.write_bytes(data[: pointers[30].offset])
        with pytest.raises(Corrupt):
            await opened(tmp_path)
        place.unlink()
        # Nothing at all is no damage of a file, but the synced offset says that there was one.
        with pytest.raises(Corrupt):
            await opened(tmp_path)

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
    assert [len(index.pack_pointer(p)) for p in pointers] == [12, 12, 12]
    assert [index.unpack_pointer(index.pack_pointer(p)) for p in pointers] == sorted(pointers)
