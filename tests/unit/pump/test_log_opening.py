"""What a start makes of a directory: names, gaps, footers, what is missing, what never got out."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from tests.unit.pump.driven import (
    START,
    Machine,
    append,
    counted_reads,
    drive,
    footed,
    framed,
    interrupted,
    scanned,
)
from tests.unit.pump.rig import NODE, commit, prewrite, start, ts_now
from tidelog import record
from tidelog.errors import Corrupt, DiskFull, InvariantBroken, IoFailed, Purged
from tidelog.real.disk import RealDisk
from tidelog.sim import World, run
from tidelog.sim.file import SimFile
from tidelog.sim.life import Life
from tidelog_pump.log import catalog, files, opening, segments
from tidelog_pump.log.files import CLOSED, GONE, SYNCED, name
from tidelog_pump.log.place import Pointer
from tidelog_pump.log.segments import CLOSE_BYTES, Segments
from tidelog_pump.metrics import DAMAGED, SYNC_LOG

PAYLOADS = [prewrite(n, bytes([n]) * n * 40) for n in range(1, 40)]
LARGE = prewrite(50, bytes(CLOSE_BYTES))
Record = tuple[Pointer, bytes]


@pytest.fixture(autouse=True)
def said(monkeypatch: pytest.MonkeyPatch) -> Iterator[MagicMock]:
    """What is logged."""
    log = MagicMock()
    for module in (segments, opening, files, catalog):
        monkeypatch.setattr(module, "log", log)
    return log


def small() -> Machine:
    return Machine(segment_bytes=1000)


def fill(log: Segments, payloads: list[bytes] = PAYLOADS) -> list[Record]:
    return [(append(log, [p], n)[0], p) for n, p in enumerate(payloads, start=1)]


def change(machine: Machine, changed: dict[str, bytes | None]) -> None:
    """Files changed, added, or (None) taken away while nobody runs."""
    changed = {**machine.files(), **changed}
    machine.disk.restore({p: d for p, d in changed.items() if d is not None or p == "value"})


def test_numbers_begin_at_zero_and_may_have_gaps() -> None:
    machine = small()
    log = machine.opened()
    assert log.fids == [0]
    assert log.start == log.end == log.readable == START
    records = fill(log)
    assert log.fids == list(range(len(log.fids)))
    gone = {1, 2, 5}
    drive(log.remove(gone))
    kept = [r for r in records if r[0].fid not in gone]
    again = machine.opened()
    assert set(log.fids) == {*again.fids}
    assert scanned(again) == (kept, None)
    assert scanned(again, Pointer(1, 77)) == ([r for r in kept if r[0].fid > 2], None)
    for pointer, payload in records:
        if pointer.fid in gone:
            with pytest.raises(Purged):
                again.payload(pointer)
        else:
            assert again.payload(pointer) == payload
    last = again.fids[-1]
    assert append(again, [LARGE], 50) == [Pointer(last + 1, 0)]


def test_other_files_are_left_alone_and_named_once(said: MagicMock) -> None:
    machine = small()
    records = fill(machine.opened())
    foreign = ["0000007.vlog", "7.vlog", "000004.vlog.bak", "9999999999.vlog", "notes"]
    change(machine, {f"value/{entry}": b"not ours" for entry in foreign})
    assert scanned(machine.opened()) == (records, None)
    said.warning.assert_called_once()
    assert said.warning.call_args.kwargs["files"] == sorted(foreign)
    assert set(machine.files()) >= {f"value/{entry}" for entry in foreign}


def test_a_seven_digit_number_is_one_of_ours() -> None:
    machine = small()
    machine.disk.restore({"value": None, "value/1000000.vlog": framed(PAYLOADS[0]) + footed(1)})
    log = machine.opened()
    assert log.fids == [1_000_000, 1_000_001]
    assert scanned(log) == ([(Pointer(1_000_000, 0), PAYLOADS[0])], None)


def test_a_start_after_a_clean_stop_reads_footers_only(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(segment_bytes=100_000)
    log = machine.opened()
    records = fill(log, [LARGE] * 5)
    before = log.fids
    drive(log.finish())
    with counted_reads(monkeypatch) as reads:
        again = machine.opened()
    assert again.fids == [*before, before[-1] + 1]
    assert reads == {name(fid): record.FOOTER_BYTES for fid in before} | {
        # And of the last one what lies behind the synced offset: its footer.
        name(before[-1]): 2 * record.FOOTER_BYTES
    }
    assert scanned(again) == (records, None)
    assert [c.max_ts for c in again.closed()] == [1, 2, 3, 4, 5]
    # Nobody wrote anything: nothing grows from stops and starts.
    fids = again.fids
    drive(again.finish())
    assert machine.opened().fids == fids


def test_a_small_last_segment_stays_open_over_clean_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine()
    log = machine.opened()
    records = fill(log)
    assert log.end.offset < CLOSE_BYTES
    for _ in range(3):
        drive(log.finish())
        with counted_reads(monkeypatch) as reads:
            log = machine.opened()
        assert sum(reads.values()) <= record.FOOTER_BYTES
        assert log.fids == [0]
    assert append(log, [LARGE], 50) == [Pointer(0, records[-1][0].offset + 16 + len(PAYLOADS[-1]))]


def test_a_clean_stop_on_a_full_disk_only_warns(said: MagicMock) -> None:
    machine = Machine()
    log = machine.opened()
    records = fill(log, [LARGE])
    machine.disk.full = True
    drive(log.finish())
    said.warning.assert_called_once()
    machine.disk.full = False
    again = machine.opened()
    assert again.fids == [0]
    assert scanned(again) == (records, None)


def test_without_sync_log_it_says_so_and_a_clean_stop_loses_nothing(said: MagicMock) -> None:
    machine = Machine(sync=False)
    log = machine.opened()
    assert "sync-log is off" in said.warning.call_args.args[0]
    assert (SYNC_LOG._value.get(), log.status()["sync_log"]) == (0, False)
    records = fill(log)
    drive(log.finish())
    machine.disk.faults.keeps_unsynced = False
    machine.disk.crash()
    assert scanned(machine.opened()) == (records, None)
    machine.sync = True
    machine.opened()
    assert SYNC_LOG._value.get() == 1


@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("kind", ["io", "full"])
def test_after_a_failed_append_nothing_more_is_taken(nth: int, kind: str) -> None:
    machine = Machine(nth)
    log = machine.opened()
    records = fill(log, [LARGE])
    end = log.end
    machine.disk.fail_nth(nth, kind if nth == 1 else "io")
    with pytest.raises((IoFailed, DiskFull)):
        append(log, [PAYLOADS[0]], 60)
    assert log.end == end
    assert scanned(log) == (records, None)
    with pytest.raises(IoFailed):
        append(log, [PAYLOADS[1]], 61)
    before = machine.files()[name(0)]
    drive(log.finish())
    assert machine.files()[name(0)] == before
    found, error = scanned(machine.opened())
    assert (found[:1], error) == (records, None)


def acked_after_a_failed_sync(seed: int, *, footer: bool) -> None:
    """A sync fails, the process ends and starts again, takes more; then the power goes."""
    machine = Machine(seed, segment_bytes=2 * len(LARGE) + 40)
    log = machine.opened()
    records = fill(log, [LARGE, LARGE] if footer else [LARGE])
    machine.disk.fail_nth(2)  # The write succeeds, its sync does not.
    with pytest.raises(IoFailed):
        append(log, [PAYLOADS[9]], 60)
    again = machine.opened()
    found, error = scanned(again)
    assert error is None
    assert found[: len(records)] == records
    for number in range(6):  # The last of them in the next segment.
        payload = prewrite(70 + number, bytes(CLOSE_BYTES // 2))
        found.append((append(again, [payload], 70 + number)[0], payload))
    machine.disk.faults.keeps_unsynced = False
    machine.disk.crash()
    assert scanned(machine.opened()) == (found, None)


@pytest.mark.parametrize("footer", [False, True])
def test_what_a_failed_sync_left_in_the_cache_is_written_again(
    monkeypatch: pytest.MonkeyPatch, *, footer: bool
) -> None:
    for seed in range(20):
        acked_after_a_failed_sync(seed, footer=footer)

    async def sync_only(self: SimFile, _: int) -> None:
        await self.sync()

    # That it can fail: a mere sync says yes and saves nothing.
    monkeypatch.setattr(SimFile, "rewrite", sync_only)
    lost = 0
    for seed in range(20):
        try:
            acked_after_a_failed_sync(seed, footer=footer)
        except (AssertionError, Corrupt):
            lost += 1
    assert lost


def test_a_lost_closed_segment_stops_its_readers_not_the_pump() -> None:
    for lost in (0, 3):
        machine = small()
        records = fill(machine.opened())
        change(machine, {name(lost): None})
        seen = DAMAGED._value.get()
        log = machine.opened()
        assert DAMAGED._value.get() == seen + 1
        assert log.status()["damaged_segments"] == {name(lost): GONE}
        found, error = scanned(log, log.start)
        assert found == [r for r in records if r[0].fid < lost]
        assert isinstance(error, Corrupt)
        assert name(lost) in error.message
        with pytest.raises(Corrupt, match=name(lost)):
            log.payload(Pointer(lost, 0))
        assert append(log, [LARGE], 50)
        rest = [r for r in records if r[0].fid > lost]
        assert scanned(log, Pointer(lost + 1, 0))[0][: len(rest)] == rest
        # It is said at every start until the loss is accepted.
        assert machine.opened().status()["damaged_segments"]
        change(machine, {CLOSED: None, SYNCED: None})
        accepted = machine.opened()
        assert not accepted.status()["damaged_segments"]
        assert scanned(accepted)[1] is None


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("keeps", [False, True])
def test_a_power_loss_at_any_moment_of_a_rotation(*, keeps: bool, restarts: bool) -> None:
    """Or after the process died there and the next one took something."""
    for turns in range(1, 40):
        machine = Machine(turns, segment_bytes=1000)
        log = machine.opened()
        acked = fill(log, PAYLOADS[:12])

        async def rotated(log: Segments, acked: list[Record]) -> None:
            await log.rotate(1000)
            acked.append((await log.append([framed(PAYLOADS[20])], 20), PAYLOADS[20]))

        done = not interrupted(rotated(log, acked), turns)
        if restarts:
            log = machine.opened()
            acked = scanned(log)[0]
            acked.append((append(log, [PAYLOADS[21]], 21)[0], PAYLOADS[21]))
        machine.disk.faults.keeps_unsynced = keeps
        machine.disk.crash()
        again = machine.opened()
        found, error = scanned(again)
        assert (found[: len(acked)], error) == (acked, None)
        assert not again.status()["damaged_segments"]
        if done:
            return
    pytest.fail("it never came to an end")


@pytest.mark.parametrize("beside", [[SYNCED], [CLOSED], []])
def test_a_lost_last_segment_stops_the_start(beside: list[str]) -> None:
    """Either of the files beside them tells; what is appended may never take its place."""
    machine = small()
    last = [pointer.fid for pointer, _ in fill(machine.opened())][-1]
    gone = [name(last), name(last - 1)] if beside == [SYNCED] else [name(last)]
    change(machine, dict.fromkeys([*gone, *beside]))
    with pytest.raises(Corrupt, match=name(last)):
        machine.opened()
    for fid in range(last + 1):
        change(machine, {name(fid): None})
    with pytest.raises(Corrupt, match="is gone"):
        machine.opened()


@pytest.mark.parametrize("full", [False, True])
def test_a_crash_while_segments_are_removed_leaves_no_alarm(*, full: bool) -> None:
    for nth in range(1, 20):
        machine = small()
        log = machine.opened()
        records = fill(log)
        if full:
            machine.disk.faults.capacity = machine.disk.used()
        machine.disk.fail_nth(nth)
        try:
            drive(log.remove([0, 1, 2]))
            failed = False
        except IoFailed:
            failed = True
        machine.disk.clear_faults()
        machine.disk.faults.capacity = 1 << 40
        machine.disk.crash()
        again = machine.opened()
        assert not again.status()["damaged_segments"], nth
        there = {*again.fids}
        assert scanned(again) == ([r for r in records if r[0].fid in there], None)
        drive(again.remove([0, 1, 2]))
        assert again.fids == [fid for fid in log.fids if fid > 2]
        if not failed:
            assert not {0, 1, 2} & there
            return
    pytest.fail("it never came to an end")


def test_the_segment_that_is_written_is_not_removed() -> None:
    log = small().opened()
    fill(log)
    with pytest.raises(InvariantBroken):
        drive(log.remove(log.fids))


def test_segments_are_removed_while_the_writer_closes_others(tmp_path: Path) -> None:
    async def main() -> None:
        log = Segments(RealDisk(tmp_path), segment_bytes=100, sync=True)
        await log.open()

        async def write() -> None:
            for n in range(40):
                await log.rotate(100)
                await log.append([framed(PAYLOADS[0])], n)

        async def remove() -> None:
            while len(log.closed()) < 30:
                await log.remove([c.fid for c in log.closed()])
                await asyncio.sleep(0)
                if log.fids[-1] > 35:
                    return

        await asyncio.gather(write(), remove())
        await log.finish()
        await log.open()
        assert not log.status()["damaged_segments"]
        assert len(catalog.unpack((tmp_path / CLOSED).read_bytes()) or []) == len(log.closed())

    asyncio.run(main())


def test_a_torn_record_is_no_footer_whatever_its_bytes() -> None:
    """A payload that holds segment files, as a backup of ours in a table does."""
    machine = Machine()
    log = machine.opened()
    records = fill(log, PAYLOADS[:3])
    whole = framed(prewrite(60, footed(3) * 9))
    data = machine.files()[name(0)]
    assert data is not None
    for cut in range(len(whole)):
        change(machine, {name(0): data + whole[:cut]})
        again = machine.opened()
        assert again.fids == [0], cut
        assert again.end == log.end
        assert scanned(again) == (records, None)


def test_a_record_that_is_no_binlog_is_named_at_the_start() -> None:
    machine = Machine()
    log = machine.opened()
    records = fill(log, PAYLOADS[:3])
    data = machine.files()[name(0)]
    assert data is not None
    change(machine, {name(0): data + framed(b"no binlog")})
    with pytest.raises(Corrupt, match=rf"{name(0)} at offset {log.end.offset}"):
        machine.opened()
    assert records


def test_a_scan_begins_at_a_record() -> None:
    machine = small()
    log = machine.opened()
    records = fill(log)
    second = next(p for p, _ in records if p.offset)
    closed_end = log.closed()[0].bytes - record.FOOTER_BYTES
    beyond = [
        Pointer(0, closed_end + 1),
        Pointer(0, closed_end + 12),
        log.end._replace(offset=9999),
    ]
    for pointer in (second._replace(offset=second.offset + 1), *beyond):
        found, error = scanned(log, pointer)
        assert found == []
        assert isinstance(error, Corrupt)
    # Where the records of a closed segment end the next one begins.
    assert scanned(log, Pointer(0, closed_end)) == ([r for r in records if r[0].fid], None)
    assert scanned(log, log.end) == ([], None)


def test_a_length_beyond_the_file_is_not_read() -> None:
    machine = Machine()
    log = machine.opened()
    lying = record.MAGIC.to_bytes(4, "little") + (2**31 - 1).to_bytes(8, "little") + bytes(4)
    drive(log.append([lying], 1))
    with pytest.raises(Corrupt, match="offset 0"):
        log.payload(START)


def test_more_segments_than_the_usual_limit_of_open_files(tmp_path: Path) -> None:
    (tmp_path / "value").mkdir()
    for fid in range(300):
        (tmp_path / name(fid)).write_bytes(framed(PAYLOADS[0]) + footed(fid))
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (128, before[1]))

    async def main() -> None:
        log = Segments(RealDisk(tmp_path), segment_bytes=1 << 20, sync=True)
        await log.open()
        assert len(log.fids) == 301
        await log.finish()

    try:
        asyncio.run(main())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize("lost", [False, True])
def test_a_damaged_old_segment_stops_who_reads_it_and_nobody_else(*, lost: bool) -> None:
    async def main(world: World) -> None:
        _, client = await start(world)
        base, pump = ts_now(world), world.node(NODE)
        for n in range(0, 100, 2):
            await client.done(prewrite(base + n, bytes(4000)), commit(base + n, base + n + 1))
        await pump.stop()
        hurt = name(1)
        if lost:
            pump.disk.lose(hurt)
        else:
            files = pump.disk.image()
            data = bytearray(files.files[files.names[hurt]].durable)
            data[2000] ^= 4
            (await pump.disk.mount(Life("vandal")).open(hurt)).overwrite(bytes(data))
        pump.restart()
        await client.until_online()
        for _ in range(5):
            frame = await client.pull(0)
            while not frame.code:
                frame = await client.pull(frame.resolved_ts)
            assert (frame.code, hurt in frame.message) == ("Corrupt", True)
        after = base + 70
        assert [t.commit_ts for t in await client.pull_up_to(base + 99, after)][-1] == base + 99
        await client.done(prewrite(base + 200), commit(base + 200, base + 201))
        assert len(await client.pull_up_to(base + 201, base + 99)) == 1
        assert not pump.failures

    run(main, 11)


def test_a_removal_that_is_cancelled_is_finished_by_the_next_one() -> None:
    """Wherever the gc's actor is restarted: the unlink under way ends in its thread."""
    for turns in range(1, 40):
        machine = small()
        log = machine.opened()
        records = fill(log)
        going = log.fids[:3]
        cancelled = interrupted(log.remove(going), turns)
        drive(log.remove(going))
        assert not {*going} & {*log.fids}
        left = [r for r in records if r[0].fid not in going]
        assert scanned(log, log.start) == (left, None)
        # Also where all that the first one had yet to do was to make it durable.
        machine.disk.crash()
        again = machine.opened()
        assert not {*going} & {*again.fids}, turns
        assert scanned(again, again.start) == (left, None)
        if not cancelled:
            return
    pytest.fail("it never came to an end")
