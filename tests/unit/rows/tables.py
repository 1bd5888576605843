"""Tables and values for the codec's tests: every type, and every kind of handle."""

from __future__ import annotations

from base64 import b64encode

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tidelog.rows.column import shortest_float32
from tidelog.rows.table_codec import RowChange, TableCodec
from tidelog.rows.values import Value
from tidelog.schema.model import (
    FLAG_NOT_NULL,
    FLAG_PRIMARY,
    FLAG_UNSIGNED,
    ColumnInfo,
    Default,
    FieldType,
    IndexColumn,
    IndexInfo,
    Name,
    TableInfo,
)
from tidelog_proto.binlog_pb2 import TableMutation

INSERT, UPDATE, DELETE = 0, 1, 4
ELEMS = ("a", "b,", "汉", "d d")


def column(
    at: int,
    name: str,
    tp: int,
    *,
    flag: int = 0,
    flen: int = -1,
    decimal: int = -1,
    charset: str = "binary",
    elems: tuple[str, ...] | None = None,
    default: Default = None,
    origin: Default = None,
    state: int = 5,
    hidden: bool = False,
    generated: str = "",
    stored: bool = False,
) -> ColumnInfo:
    """A column at an offset; its id is offset + 1."""
    collate = "binary" if charset == "binary" else f"{charset}_bin"
    kind = FieldType(tp, flag, flen, decimal, charset, collate, elems)
    return ColumnInfo(
        id=at + 1,
        name=Name(name, name.lower()),
        offset=at,
        type=kind,
        default=default,
        origin_default=origin,
        state=state,
        hidden=hidden,
        generated_expr_string=generated,
        generated_stored=stored,
    )


def index(name: str, *parts: tuple[int, int], primary: bool = False) -> IndexInfo:
    """A unique index over (offset, prefix length) parts."""
    columns = tuple(IndexColumn(Name(), offset, length) for offset, length in parts)
    return IndexInfo(1, Name(name, name), columns, is_unique=True, is_primary=primary)


def int_key_table(*columns: ColumnInfo, unsigned: bool = False) -> TableInfo:
    """`id` is the handle itself; the others follow (their offsets start at 1)."""
    flag = FLAG_NOT_NULL | FLAG_PRIMARY | (FLAG_UNSIGNED if unsigned else 0)
    cols = (column(0, "id", 8, flag=flag), *columns)
    return TableInfo(7, Name("t", "t"), cols=cols, pk_is_handle=True)


def hidden_handle_table(*columns: ColumnInfo) -> TableInfo:
    return TableInfo(7, Name("t", "t"), cols=columns)


def clustered_table(parts: tuple[tuple[int, int], ...], *columns: ColumnInfo) -> TableInfo:
    primary = index("PRIMARY", *parts, primary=True)
    return TableInfo(7, Name("t", "t"), cols=columns, index_info=(primary,), is_common_handle=True)


def mutation(
    inserts: tuple[bytes, ...] = (),
    updates: tuple[bytes, ...] = (),
    deletes: tuple[bytes, ...] = (),
) -> TableMutation:
    sequence = [INSERT] * len(inserts) + [UPDATE] * len(updates) + [DELETE] * len(deletes)
    made = TableMutation(
        table_id=7, inserted_rows=inserts, updated_rows=updates, deleted_rows=deletes
    )
    made.sequence.extend(sequence)  # type: ignore[arg-type]
    return made


def one(codec: TableCodec, made: TableMutation) -> RowChange:
    (change,) = codec.decode(made)
    return change


def _digits(count: int) -> SearchStrategy[str]:
    return st.integers(0, 10**count - 1).map(str)


def _decimal(precision: int, scale: int) -> SearchStrategy[str]:
    def build(sign: bool, whole: str, fraction: int) -> str:
        text = f"{whole}.{fraction:0{scale}d}" if scale else whole
        return f"-{text}" if sign and text.strip("0.") else text

    return st.builds(
        build,
        st.booleans(),
        _digits(precision - scale) if precision > scale else st.just("0"),
        st.integers(0, 10**scale - 1),
    )


def _datetime(fsp: int) -> SearchStrategy[str]:
    def build(y: int, mo: int, d: int, h: int, mi: int, s: int, micro: int) -> str:
        text = f"{y:04d}-{mo:02d}-{d:02d} {h:02d}:{mi:02d}:{s:02d}"
        return f"{text}.{micro:06d}"[: 20 + fsp] if fsp else text

    i = st.integers
    return st.builds(
        build, i(0, 9999), i(0, 12), i(0, 31), i(0, 23), i(0, 59), i(0, 59), i(0, 999_999)
    )


def _duration(fsp: int) -> SearchStrategy[str]:
    def build(sign: bool, h: int, m: int, s: int, micro: int) -> str:
        text = f"{h:02d}:{m:02d}:{s:02d}"
        if fsp:
            text += f".{micro:06d}"[: 1 + fsp]
        return f"-{text}" if sign and text.strip("0:.") else text

    i = st.integers
    return st.builds(build, st.booleans(), i(0, 838), i(0, 59), i(0, 59), i(0, 999_999))


TEXT = st.text(st.characters(codec="utf-8"), max_size=40)
BASE64 = st.binary(max_size=40).map(lambda raw: b64encode(raw).decode())
FINITE = st.floats(allow_nan=False, allow_infinity=False)
FLOAT32 = st.floats(width=32, allow_nan=False, allow_infinity=False).map(shortest_float32)
JSON_LEAF = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | FINITE | TEXT
JSON: SearchStrategy[Value] = st.recursive(
    JSON_LEAF,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
).filter(lambda value: value is not None)

SAMPLES: tuple[tuple[ColumnInfo, SearchStrategy[Value]], ...] = tuple(
    (column(at, f"c{at}", tp, flag=flag, flen=flen, decimal=dec, charset=cs, elems=elems), values)
    for at, (tp, flag, flen, dec, cs, elems, values) in enumerate(
        (
            (1, 0, 4, 0, "binary", None, st.integers(-128, 127)),
            (8, 0, 20, 0, "binary", None, st.integers(-(2**63), 2**63 - 1)),
            (8, FLAG_UNSIGNED, 20, 0, "binary", None, st.integers(0, 2**64 - 1)),
            (4, 0, 12, -1, "binary", None, FLOAT32),
            (5, 0, 22, -1, "binary", None, FINITE),
            (246, 0, 65, 30, "binary", None, _decimal(65, 30)),
            (246, 0, 10, 0, "binary", None, _decimal(10, 0)),
            (246, 0, 30, 30, "binary", None, _decimal(30, 30)),
            (10, 0, 10, 0, "binary", None, _datetime(0).map(lambda text: text[:10])),
            (12, 0, 19, 0, "binary", None, _datetime(0)),
            (7, 0, 26, 6, "binary", None, _datetime(6)),
            (11, 0, 14, 3, "binary", None, _duration(3)),
            (13, 96, 4, 0, "binary", None, st.integers(0, 2155)),
            (15, 0, 300, 0, "utf8mb4", None, TEXT),
            (252, 0, 65535, 0, "utf8mb4", None, TEXT),
            (15, 0, 300, 0, "binary", None, BASE64),
            (16, FLAG_UNSIGNED, 64, 0, "binary", None, st.integers(0, 2**64 - 1)),
            (245, 0, -1, 0, "binary", None, JSON),
            (247, 0, -1, 0, "utf8mb4", ELEMS, st.sampled_from(ELEMS)),
            (248, 0, -1, 0, "utf8mb4", ("x", "y", "z"), st.sampled_from(("", "x", "y,z"))),
        ),
        start=1,
    )
)
"""A column of every type at offset 1, 2, …, each with its values."""
