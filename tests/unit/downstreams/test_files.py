"""The file downstream: what is in the directory after whatever ended its writer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.downstreams.shapes import column, created, ddl, table
from tests.unit.pump.driven import Machine, drive
from tidelog.changes import Event
from tidelog.downstream import Checkpoint, DownstreamOptions, Image, TableShare, Work
from tidelog.downstreams import open_downstream
from tidelog.downstreams.files import FilesDownstream
from tidelog.downstreams.target import Target
from tidelog.errors import ConfigError, InvariantBroken, Refused, Stopped, TidelogError, Unavailable
from tidelog.pb_files import names, savepoint
from tidelog.pb_files.framing import records
from tidelog.pb_files.reader import binlogs
from tidelog.pb_files.values import images
from tidelog.real.disk import RealDisk
from tidelog.sim.life import Life
from tidelog_proto.pb_binlog_pb2 import Binlog

T = table("t", column("id", "int(11)", nullable=False), column("v", "varchar(200)"), key=("id",))
U = msgspec.structs.replace(T, name="u", version=7)
BASE = 470_000_000_000_000_000
DAY = 86_400_000 << 18
SEGMENT = 700


def row(commit_ts: int, number: int) -> Event:
    event = created({"id": number, "v": "x" * (number % 150)})
    return msgspec.structs.replace(event, commit_ts=commit_ts)


def work(*txns: tuple[int, int], ends: bool = True) -> Work:
    """Of each (commit_ts, rows); its first row is in another table."""
    shares = []
    for number, structure in enumerate((U, T)):
        events = [row(ts, n) for ts, rows in txns for n in range(rows) if bool(n) is bool(number)]
        shares.append(TableShare("d", structure, events=events))
    last = txns[-1][0]
    return Work(shares, checkpoint=Checkpoint(last, consistent=True, feed="f"), ends=ends)


def read(directory: Path, after_ts: int = 0) -> list[tuple[int, int]]:
    """(commit_ts, rows) of each record; 0 rows: a DDL."""
    return [(one.commit_ts, len(one.dml_data.events)) for one in binlogs(directory, after_ts)]


class Writer:
    """On a directory of the machine; each call is one life of a downstream."""

    def __init__(self, directory: Path, options: str = "") -> None:
        self.directory = directory
        self.target = Target.parse(f"file://{directory}?segment_bytes={SEGMENT}{options}")

    def run(self, act: Callable[[FilesDownstream, Any], Any]) -> Any:
        async def life() -> Any:
            downstream = FilesDownstream(self.target, RealDisk)
            opened = await downstream.open("f")
            try:
                return await act(downstream, opened)
            finally:
                await downstream.close()

        return asyncio.run(life())

    def apply(self, *works: Work) -> None:
        async def act(downstream: FilesDownstream, opened: Any) -> None:
            lane = await downstream.lane(0)
            for one in works:
                await lane.apply(one)

        self.run(act)

    def checkpoint(self) -> Checkpoint | None:
        async def act(downstream: FilesDownstream, opened: Any) -> Checkpoint | None:
            found: Checkpoint | None = opened.checkpoint
            return found

        found: Checkpoint | None = self.run(act)
        return found


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    return Writer(tmp_path / "out")


def test_a_record_a_transaction_in_commit_order_and_files_in_theirs(writer: Writer) -> None:
    assert writer.checkpoint() is None
    txns = [(BASE + n, 1 + n % 4) for n in range(40)]
    writer.apply(*(work(*txns[at : at + 3]) for at in range(0, 40, 3)))
    assert read(writer.directory) == txns
    assert read(writer.directory, BASE + 17) == txns[18:]
    found = names.in_order(entry.name for entry in writer.directory.iterdir())
    assert len(found) > 3
    assert [name.number for name in found] == list(range(len(found)))
    saved = writer.checkpoint()
    assert saved is not None
    assert (saved.commit_ts, saved.consistent) == (BASE + 39, True)


def test_the_savepoint_has_the_originals_keys_first(writer: Writer) -> None:
    writer.apply(work((BASE, 2)))
    text = (writer.directory / "savepoint").read_text()
    assert text.startswith(f"consistent = true\ncommitTS = {BASE}\nschema-version = 7\n")


def test_rows_and_ddls_are_told_as_they_were(writer: Writer) -> None:
    changed = Event("u", BASE + 2, None, {"id": 1, "v": "a"}, {"id": 1, "v": None})
    message = ddl("add_column", (T, T))
    message = msgspec.structs.replace(message, commit_ts=BASE + 1, query="ALTER", db="a`b")

    async def act(downstream: FilesDownstream, opened: Any) -> None:
        await downstream.apply_ddl(message, Checkpoint(BASE + 1, ddls_done=(3, 4), ts_map={"a": 1}))
        lane = await downstream.lane(0)
        share = TableShare("d", T, events=[changed])
        behind = Checkpoint(BASE + 2, ddls_done=(3, 4), ts_map={"a": 1})
        await lane.apply(Work([share], checkpoint=behind))

    writer.run(act)
    first, second = binlogs(writer.directory)
    assert first.ddl_query == b"use `a``b`; ALTER;"
    assert images(second.dml_data.events[0]) == ({"id": 1, "v": "a"}, {"id": 1, "v": None})
    saved = writer.checkpoint()
    assert saved is not None
    assert (saved.ddls_done, saved.ts_map, saved.feed) == ((3, 4), {"a": 1}, "f")


def test_pieces_of_a_large_transaction_count_with_the_last_one(writer: Writer) -> None:
    writer.apply(work((BASE, 1)))
    writer.apply(work((BASE + 1, 9), ends=False), work((BASE + 1, 8), ends=False))
    saved = writer.checkpoint()
    assert saved is not None
    assert saved.commit_ts == BASE
    assert read(writer.directory) == [(BASE, 1)]
    writer.apply(work((BASE + 1, 9), ends=False), work((BASE + 1, 8)))
    assert read(writer.directory) == [(BASE, 1), (BASE + 1, 9), (BASE + 1, 8)]


def test_readers_see_nothing_that_is_not_saved(writer: Writer) -> None:
    writer.apply(work((BASE, 1)))
    writer.apply(work((BASE + 1, 9), ends=False))
    assert read(writer.directory) == [(BASE, 1)]


def test_old_files_go_but_never_the_newest(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "out", "&retention_days=2")
    writer.apply(*(work((BASE + day * DAY, 30)) for day in range(6)))
    kept = read(writer.directory)
    assert [ts for ts, _ in kept] == [BASE + day * DAY for day in (3, 4, 5)]
    # When the newest file was left is not known better than by the next one's beginning.
    writer.apply(work((BASE + 90 * DAY, 30)))
    writer.apply(work((BASE + 93 * DAY, 1)))
    assert [ts for ts, _ in read(writer.directory)] == [BASE + day * DAY for day in (90, 93)]


def test_two_writers_of_one_directory(writer: Writer) -> None:
    async def act(downstream: FilesDownstream, opened: Any) -> None:
        other = FilesDownstream(writer.target, RealDisk)
        with pytest.raises(Unavailable, match="is being written"):
            await other.open("f")
        with pytest.raises(Refused, match="is being written"):
            await FilesDownstream(writer.target, RealDisk, if_free=True).open("f")
        # Opened again, after an error, it is still ours.
        await downstream.open("f")

    writer.run(act)


def test_what_is_no_directory_of_ours_is_left_alone(tmp_path: Path) -> None:
    def refused(directory: Path, kind: type[TidelogError]) -> str:
        with pytest.raises(kind) as caught:
            Writer(directory).checkpoint()
        assert caught.value.hint
        return str(caught.value)

    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "binlog-0000000000000000-20200101000000").write_bytes(b"")
    assert "no savepoint" in refused(foreign, Stopped)
    for text, said in (
        ("commitTS = 5\n", "the original drainer"),
        ('commitTS = 5\nfeed = "g"\nfile = 0\n', "belongs to feed g"),
        ("commitTS = ", "can't be read"),
        ('commitTS = 5\nfeed = "f"\nfile = 0\noffset = 9\n', "0 bytes, the savepoint says 9"),
        ('commitTS = 5\nfeed = "f"\nfile = 3\noffset = 0\n', "file 3 of the savepoint is missing"),
    ):
        (foreign / "savepoint").write_text(text)
        assert said in refused(foreign, Stopped)
    (tmp_path / "file").write_bytes(b"")
    assert "the Applier's user may write" in refused(tmp_path / "file", ConfigError)


def test_a_value_that_its_column_can_not_have_is_named(writer: Writer) -> None:
    wrong = TableShare("d", T, events=[created({"id": "many", "v": ""})])
    with pytest.raises(Stopped, match=r"a row of d\.t at"):
        writer.apply(Work([wrong], checkpoint=Checkpoint(BASE)))
    folded = TableShare("d", T, inserts=[Image({"id": 1})])
    with pytest.raises(InvariantBroken):
        writer.apply(Work([folded], checkpoint=Checkpoint(BASE)))


def test_the_factory_opens_it(tmp_path: Path) -> None:
    opened = open_downstream(DownstreamOptions(url=f"file://{tmp_path}/out"))
    assert isinstance(opened, FilesDownstream)


def test_a_full_disk_is_told_and_written_on_where_there_is_room() -> None:
    machine = Machine(1)
    target = Target.parse(f"file:///out?segment_bytes={SEGMENT}")
    downstream = FilesDownstream(target, lambda path: machine.mount())
    drive(downstream.open("f"))
    drive(drive(downstream.lane(0)).apply(work((BASE, 3))))
    lane = drive(downstream.lane(0))
    machine.disk.full = True
    with pytest.raises(Unavailable, match="file:///out") as told:
        drive(lane.apply(work((BASE + 1, 2))))
    assert told.value.hint
    machine.disk.full = False
    drive(drive(downstream.lane(0)).apply(work((BASE + 1, 2))))
    assert found(machine) == [(BASE, 3), (BASE + 1, 2)]


@given(st.data())
def test_nothing_is_missing_or_twice_whatever_ends_the_writer(data: st.DataObject) -> None:
    """Each life writes on from its checkpoint until its disk fails, the power does, or it ends; on
    a full disk it waits for room."""
    machine = Machine(data.draw(st.integers(0, 1 << 30), label="seed"))
    target = Target.parse(f"file:///out?segment_bytes={SEGMENT}")
    rows = data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=20), label="rows")
    txns = [(BASE + n, count) for n, count in enumerate(rows)]
    for _ in range(4):
        fault = data.draw(st.sampled_from(["", "io", "full", "power"]), label="fault")
        at = data.draw(st.integers(1, 40), label="at")
        step = data.draw(st.integers(1, 4), label="step")
        downstream = FilesDownstream(target, lambda path: machine.mount())
        try:
            saved = drive(downstream.open("f")).checkpoint
            if fault in ("io", "full"):
                machine.disk.fail_nth(at, fault)
            done = 0 if saved is None else saved.commit_ts - BASE + 1
            lane = drive(downstream.lane(0))
            for begin in range(done, min(at, len(txns)) if fault == "power" else len(txns), step):
                pieces = [work(*txns[begin : begin + step], ends=False)] if begin % 3 == 0 else []
                one = work(*txns[begin : begin + step])
                if pieces:
                    one = msgspec.structs.replace(one, shares=[])
                try:
                    for piece in (*pieces, one):
                        drive(lane.apply(piece))
                except Unavailable:
                    machine.disk.clear_faults()
                    lane = drive(downstream.lane(0))
                    for piece in (*pieces, one):
                        drive(lane.apply(piece))
        except TidelogError:
            assert fault == "io"
        machine.disk.clear_faults()
        if fault == "power":
            machine.disk.crash()
    downstream = FilesDownstream(target, lambda path: machine.mount())
    saved = drive(downstream.open("f")).checkpoint
    done = 0 if saved is None else saved.commit_ts - BASE + 1
    assert found(machine) == txns[:done]


def found(machine: Machine) -> list[tuple[int, int]]:
    """All that is in the files, whatever the savepoint says."""
    disk = machine.disk.mount(Life("look"))
    told = []
    for name in names.in_order(disk.listdir("")):
        for record in records(BytesIO(disk.read_file(name.text))):
            assert not record.bad
            one = Binlog.FromString(record.payload)
            told.append((one.commit_ts, len(one.dml_data.events)))
    return told


@given(
    st.integers(0, 1 << 62),
    st.booleans(),
    st.text(st.characters(codec="utf-8", exclude_characters="\x7f"), max_size=9),
    st.integers(-1, 99),
    st.lists(st.integers(0, 1 << 40), max_size=4).map(tuple),
)
def test_a_savepoint_is_read_back(
    commit_ts: int, consistent: bool, feed: str, file: int, early: tuple[int, ...]
) -> None:
    saved = savepoint.Savepoint(commit_ts, consistent, 5, feed, file, 7, early, {"primary-ts": 3})
    assert savepoint.load(savepoint.dump(saved)) == saved
