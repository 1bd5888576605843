"""The vectors of the original's pump/storage tests (original.md C.5), and where each stands here.

vector                                            test (in this folder unless it says)
------------------------------------------------  -------------------------------------------------
sorter_test
  sequences of B.3                                test_sorter: …vectors_come_out_the_same_or_earlier
  random P and C with latency and fakes           test_sorter, test_sorter_machine
log_test
  seek to the next magic                          not here: a scan never skips, see below
  truncated record at the tail                    test_log_damage, test_segments: torn tails
  random half corrupted, the rest is read         here: …the_others_are_read
  end of file                                     test_log_opening: a_scan_begins_at_a_record
  re-open: max ts from the footer and by scan     test_segments: …largest_timestamp_over_restarts
vlog_test
  open empty                                      test_log_opening: numbers_begin_at_zero…
  single and batched write and read               test_segments, test_log_machine
  close and open                                  test_log_machine
  a tiny file size makes many files               test_segments: small_segments_rotate…
  scan from a middle pointer                      test_segments, test_log_machine
  gc at 90 keeps the file with max 91             test_gc
  pointer codec and order                         test_segments: pointers_are_twelve_bytes…
  out of space by RLIMIT_FSIZE, then recover      here: …a_file_that_may_not_grow
storage_test
  a stuck KV must not stop the vlog               test_slow_index_sim
  catch-up makes both equal                       test_slow_index_sim, test_chaser
  close and reopen: pointers                      here: …reads_footers_only
  write, then pull back sorted, twice             here: …twice_the_same
  doGCTS boundary                                 test_gc, test_gc_sim
  resolve outcomes                                test_pump_sim: orphans_are_resolved…
  writeCBinlog readable at once                   test_pump_sim: orphans_are_resolved…
  feedPreWriteValue copies exactly 4 fields       tests/fixtures/test_pump_vlog: …what_the_original…
  config defaults preserved                       test_config: the_defaults_are_the_originals

The original's scan looks for the next magic behind a damaged record and goes on. Ours stops there
with a typed error (I7); a record that is not damaged is still read by its pointer.
"""

from __future__ import annotations

import asyncio
import random
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.unit.pump.driven import Machine, append, counted_reads, framed, scanned
from tests.unit.pump.rig import NODE, commit, prewrite, start, ts_now
from tidelog import record
from tidelog.errors import Corrupt, IoFailed
from tidelog.real.disk import RealDisk
from tidelog.sim import World, run
from tidelog_pump.log.files import name
from tidelog_pump.log.place import Pointer
from tidelog_pump.log.segments import Segments


def test_of_a_segment_with_half_its_records_damaged_the_others_are_read() -> None:
    rng = random.Random(4)
    machine = Machine()
    log = machine.opened()
    payloads = [prewrite(n, rng.randbytes(n * 7 % 200)) for n in range(1, 101)]
    pointers = append(log, payloads, 100)
    data = bytearray(machine.files()[name(0)] or b"")
    damaged = set(rng.sample(range(100), 50))
    for number in damaged:
        at = pointers[number].offset + rng.randrange(16 + len(payloads[number]))
        data[at] ^= 1 << rng.randrange(8)
    machine.disk.restore({**machine.files(), name(0): bytes(data)})
    again = machine.opened()
    for number, (pointer, payload) in enumerate(zip(pointers, payloads, strict=True)):
        if number in damaged:
            with pytest.raises(Corrupt, match=f"offset {pointer.offset}"):
                again.payload(pointer)
        else:
            assert again.payload(pointer) == payload
            found, _ = scanned(again, pointer)
            assert len(found) == min(n for n in [*damaged, 100] if n > number) - number


@contextmanager
def files_no_longer_than(size: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_write_to_a_file_that_may_not_grow_fails_and_the_next_start_recovers(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        log = Segments(RealDisk(tmp_path), segment_bytes=1 << 30, sync=True)
        await log.open()
        whole = [prewrite(n, bytes(500)) for n in range(1, 9)]
        for n, payload in enumerate(whole):
            await log.append([framed(payload)], n)
        end = log.end
        with files_no_longer_than(end.offset + 100):  # The kernel takes a part of it.
            with pytest.raises(IoFailed):
                await log.append([framed(prewrite(9, bytes(500)))], 9)
            with pytest.raises(IoFailed):
                await log.append([framed(b"")], 9)
        log.close()
        assert (tmp_path / name(0)).stat().st_size == end.offset + 100
        await log.open()
        assert (log.end, log.truncated_bytes) == (end, 100)
        assert await log.append([framed(prewrite(9, bytes(500)))], 9) == end
        found = [bytes(p) async for step in log.scan(Pointer(0, 0)) for _, p in step]
        assert found == [*whole, prewrite(9, bytes(500))]
        await log.finish()

    asyncio.run(main())


def test_the_pumps_start_after_a_clean_stop_reads_footers_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main(world: World) -> None:
        _, client = await start(world)
        base = ts_now(world)
        for n in range(0, 200, 2):
            await client.done(prewrite(base + n, bytes(4000)), commit(base + n, base + n + 1))
        pump = world.node(NODE)
        await pump.stop()
        segments = [path for path in pump.disk.image().names if path.endswith(".vlog")]
        assert len(segments) > 5
        with counted_reads(monkeypatch) as reads:
            pump.restart()
            await client.until_online()
        read = {path: size for path, size in reads.items() if path.endswith(".vlog")}
        assert set(read) == set(segments)
        assert max(read.values()) <= 2 * record.FOOTER_BYTES
        assert (await client.control("status"))["high_ts"] >= base + 199

    run(main, 5)


def test_what_is_written_is_pulled_sorted_and_twice_the_same() -> None:
    async def main(world: World) -> None:
        _, client = await start(world)
        base = ts_now(world)
        order = random.Random(6).sample(range(60), 60)
        for n in order:
            await client.done(prewrite(base + n, b"%d" % n))
        for n in sorted(order, key=lambda n: n * 37 % 60):
            await client.done(commit(base + n, base + 100 + n))
        pulls = [await client.pull_up_to(base + 159) for _ in range(2)]
        assert pulls[0] == pulls[1]
        assert [txn.commit_ts for txn in pulls[0]] == [base + 100 + n for n in range(60)]

    run(main, 6)
