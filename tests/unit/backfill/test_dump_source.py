"""A directory of dump files: nothing in it is passed by without a word."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

from tidelog.errors import BadInput, Corrupt, NotFound, Unavailable
from tidelog_backfill.snapshot.dump_source import NAMING, DumpSource

TS = 470_000_000_000_000_000
OF_TIDB = f"SHOW MASTER STATUS:\n\tLog: tidb-binlog\n\tPos: {TS}\n"
TABLE = "CREATE TABLE `t` (`id` int NOT NULL, `v` varchar(9), PRIMARY KEY (`id`));\n"
Dump = Callable[[dict[str, str | bytes]], DumpSource]


@pytest.fixture
def dump(tmp_path: Path) -> Dump:
    def made(files: dict[str, str | bytes]) -> DumpSource:
        for name, text in files.items():
            (tmp_path / name).write_bytes(text.encode() if isinstance(text, str) else text)
        return DumpSource(str(tmp_path))

    return made


def rows(source: DumpSource) -> list[object]:
    tables = source.found((), source.timestamp()).tables
    found: list[object] = []
    for chunk in source.chunks(tables, 1000, 0):
        with source.read(tables[chunk.table], chunk, 0, 100) as batches:
            found += [tuple(row) for batch in batches for row in batch]
    return found


def test_files_with_and_without_numbers_plain_and_compressed(dump: Dump) -> None:
    source = dump(
        {
            "metadata": OF_TIDB,
            "d-schema-create.sql": "CREATE DATABASE `d`;\n",
            "d.t-schema-triggers.sql": "",
            "d.t-schema.sql": TABLE,
            "d.t.sql": "INSERT INTO `t` VALUES (1,'a');\n",
            "d.t.00001.00002.sql.gz": gzip.compress(b"INSERT INTO `t` VALUES (2,'b');\n"),
            "d.t.3.csv": "3,c\n",
        }
    )
    assert source.is_exact
    assert source.timestamp() == TS
    assert sorted(rows(source), key=str) == [(1, "a"), (2, "b"), (3, "c")]


@pytest.mark.parametrize("name", ["d.t.0.sql.snappy", "d.t.0.dat", "d.t-schema.sql.xz"])
def test_files_that_can_not_be_read(dump: Dump, name: str) -> None:
    source = dump({"d.t-schema.sql": TABLE, name: b""})
    with pytest.raises(BadInput, match=name):
        source.found((), 0)
    assert source.found(("other.*",), 0).tables == []


def test_a_position_in_another_servers_log_is_no_timestamp(dump: Dump) -> None:
    source = dump({"metadata": "SHOW MASTER STATUS:\n\tLog: mysql-bin.000003\n\tPos: 4879\n"})
    assert (source.timestamp(), source.is_exact) == (0, False)


def test_files_whose_names_say_nothing_are_named(dump: Dump) -> None:
    with pytest.raises(NotFound, match=r"no DB\.TABLE-schema\.sql \(") as refused:
        dump({}).found((), 0)
    assert refused.value.hint == NAMING
    with pytest.raises(NotFound, match=r"no DB\.TABLE-schema\.sql; .*not read: shop\.sql") as found:
        dump({"shop.sql": TABLE, "metadata": ""}).found(("shop.*",), 0)
    assert "inspect" not in str(found.value)


def test_ignored_files_beside_a_dump_are_told(dump: Dump) -> None:
    files: dict[str, str | bytes] = {"d.t-schema.sql": TABLE, "d-schema-post.sql": "", "t.csv": ""}
    assert dump(files).found((), 0).warnings == ["no file of a dump, and not read: t.csv"]
    found = dump({f"t{number}.csv": "" for number in range(9)}).found((), 0)
    assert found.warnings[0].endswith(
        "t.csv, t0.csv, t1.csv, t2.csv, t3.csv, t4.csv, t5.csv, t6.csv, …"
    )
    with pytest.raises(NotFound, match=r"rows of d\.t-000, and no -schema\.sql") as refused:
        dump({"d.t-000.csv": ""}).found((), 0)
    assert refused.value.hint == NAMING


def test_no_error_of_a_dump_sends_to_what_reads_logs(dump: Dump) -> None:
    for name, content in (("d.t.0.csv", "1\n"), ("d.t.0.sql", "x"), ("d.t.0.csv", "a,b\n")):
        with pytest.raises(Corrupt) as refused:
            rows(dump({"d.t-schema.sql": TABLE, name: content}))
        assert "inspect" not in refused.value.hint
    with pytest.raises(Corrupt) as damaged:
        dump({"metadata": OF_TIDB, "d.t-schema.sql": b"CREATE TABLE `\xff`"}).found((), TS)
    assert "inspect" not in damaged.value.hint


def test_a_table_that_is_not_wanted_is_not_looked_at(dump: Dump) -> None:
    source = dump(
        {
            "d.t-schema.sql": TABLE,
            "d.g-schema.sql": "CREATE TABLE `g` (`id` int PRIMARY KEY, `p` point);\n",
            "d.g.0.sql": "",
        }
    )
    (found,) = source.found(("D.T",), 0).tables
    assert found.shown == "d.t"
    with pytest.raises(BadInput, match=r"d\.g-schema\.sql"):
        source.found((), 0)


def test_what_a_copy_lacks_and_what_is_no_table(dump: Dump) -> None:
    source = dump(
        {
            "d.t-schema.sql": TABLE.replace(";", " PARTITION BY HASH (`id`) PARTITIONS 4;"),
            "d.v-schema.sql": "CREATE TABLE `v` (`a` int) ENGINE=MyISAM;\n",
            "d.v-schema-view.sql": "CREATE VIEW `v` AS SELECT 1 AS `a`;\n",
        }
    )
    found = source.found((), 0)
    assert [one.shown for one in found.tables] == ["d.t"]
    assert found.warnings == [
        "d.v is not copied: view",
        "d.t: the copy lacks its partitions",
    ]


def test_rows_that_are_none_of_the_table(dump: Dump) -> None:
    with pytest.raises(Corrupt, match=r"d\.t\.0\.csv: line 2 has a row that is none"):
        rows(dump({"d.t-schema.sql": TABLE, "d.t.0.csv": "1,a\nabc,x\n"}))


def test_no_directory_and_no_create_table(dump: Dump) -> None:
    for place in ("/nowhere/at/all", "/etc/passwd"):
        with pytest.raises(NotFound, match="no directory"):
            DumpSource(place).found((), 0)
    with pytest.raises(BadInput, match="oracle://x"):
        DumpSource("oracle://x")
    with pytest.raises(BadInput, match="no CREATE TABLE"):
        dump({"d.t-schema.sql": "hello"}).found((), 0)


def test_damaged_and_missing_files_are_named(dump: Dump, tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {
        "d.t-schema.sql": TABLE,
        "d.t.0.csv.gz": b"no gzip at all",
        "d.t.1.csv": "1,a\n",
    }
    source = dump(files)
    tables = source.found((), 0).tables
    packed, plain = source.chunks(tables, 1000, 0)
    (tmp_path / "d.t.1.csv").unlink()
    with (
        pytest.raises(Corrupt, match=r"d\.t\.0\.csv\.gz"),
        source.read(tables[0], packed, 0, 10) as rows_of,
    ):
        list(rows_of)
    with pytest.raises(NotFound, match=r"d\.t\.1\.csv"), source.read(tables[0], plain, 0, 10):
        pass
    with pytest.raises(Corrupt, match=r"d\.t-schema\.sql"):
        dump({"d.t-schema.sql": b"CREATE TABLE `\xff`"}).found((), 0)


def test_a_file_in_whose_place_something_else_is_may_be_read_later(
    dump: Dump, tmp_path: Path
) -> None:
    """Not only a file that is gone can't be opened."""
    source = dump({"d.t-schema.sql": TABLE, "d.t.0.csv": "1,a\n"})
    tables = source.found((), 0).tables
    (chunk,) = source.chunks(tables, 1000, 0)
    (tmp_path / "d.t.0.csv").unlink()
    (tmp_path / "d.t.0.csv").mkdir()
    with (
        pytest.raises(Unavailable, match=r"d\.t\.0\.csv can't be read"),
        source.read(tables[0], chunk, 0, 10),
    ):
        pass


PACKED = [("gz", "gzip"), ("zst", "zstd"), ("bz2", "bz2"), ("lz4", "lz4")]


def packed(codec: str, data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, codec) as stream:
        stream.write(data)
    return bytes(sink.getvalue())


@pytest.mark.parametrize(("end", "codec"), PACKED)
def test_a_packed_file_that_is_cut_is_damaged(dump: Dump, end: str, codec: str) -> None:
    """As often as it is read: nobody waits for that to pass."""
    data = b"".join(b"%d,%x\n" % (n, n * n) for n in range(20_000))
    whole = packed(codec, data)
    assert len(rows(dump({"d.t-schema.sql": TABLE, f"d.t.0.csv.{end}": whole}))) == 20_000
    for size in (len(whole) // 2, len(whole) - 4):
        source = dump({f"d.t.0.csv.{end}": whole[:size]})
        with pytest.raises(Corrupt, match=rf"d\.t\.0\.csv\.{end}: "):
            rows(source)


@pytest.mark.parametrize("name", ["d.t.0.csv", "d.t.0.csv.gz"])
def test_a_file_whose_place_fails_may_be_read_later(
    dump: Dump, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Failing(io.RawIOBase):
        def readable(self) -> bool:
            return True

        def read(self, size: int = -1) -> bytes:
            raise OSError("connection lost")

    source = dump({"d.t-schema.sql": TABLE, name: b""})
    tables = source.found((), 0).tables
    place = SimpleNamespace(open_input_stream=lambda *_, **__: pa.PythonFile(Failing(), "r"))
    monkeypatch.setattr(source, "_files", place)
    (chunk,) = source.chunks(tables, 1000, 0)
    with (
        pytest.raises(Unavailable, match=rf"{name} can't be read: connection lost"),
        source.read(tables[0], chunk, 0, 10) as rows_of,
    ):
        list(rows_of)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("d.t.0.csv", b'1,"a"\n2,"caf\xe9"\n'),
        ("d.t.0.sql", b"INSERT INTO `t` VALUES (1,'a'),\n(2,'caf\xe9');\n"),
    ],
)
def test_a_text_that_is_no_utf8_is_named_with_its_line(dump: Dump, name: str, data: bytes) -> None:
    with pytest.raises(Corrupt, match=rf"{name}: line 2 has a row .*: a text that is no UTF-8"):
        rows(dump({"d.t-schema.sql": TABLE, name: data}))


def test_what_the_reader_meets_itself_passes_as_it_is(dump: Dump) -> None:
    source = dump({"d.t-schema.sql": TABLE, "d.t.1.csv": "1,a\n"})
    tables = source.found((), 0).tables
    (chunk,) = source.chunks(tables, 1000, 0)
    with pytest.raises(OSError, match="of the target"), source.read(tables[0], chunk, 0, 10):
        raise OSError("of the target")


def test_no_password_of_its_place_is_shown() -> None:
    with pytest.raises(BadInput) as refused:
        DumpSource("oracle://a:pw@x/")
    assert "pw" not in str(refused.value)
