"""Values and identifiers of every form that hypothesis makes, for one column each.

TIDELOG_LITERALS says how many over all cases (`make full`: 20,000).
"""

from __future__ import annotations

import json
import os
import struct
from base64 import b64encode
from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.unit.downstreams.shapes import column
from tidelog.downstreams.literals import quote
from tidelog.rows.column import shortest_float32
from tidelog.schema.structure import ColumnStructure

EXAMPLES = int(os.environ.get("TIDELOG_LITERALS", "5000"))
Exact = Callable[[Any], Any]


class Case(NamedTuple):
    """`shown`: an expression that reads `v` without loss; `read` and `expected` turn what it gives
    and what was written into the same form."""

    definition: ColumnStructure
    values: SearchStrategy[Any]
    shown: str = "CAST(v AS CHAR)"
    read: Exact = str
    expected: Exact = str
    key: bool = True
    options: str = ""


def examples(values: SearchStrategy[Any], count: int) -> list[Any]:
    """What hypothesis makes of a strategy; a server takes it in batches, not one by one."""
    found: list[Any] = []

    @settings(
        max_examples=count,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(values)
    def collect(value: Any) -> None:
        found.append(value)

    collect()
    return found


SPECIAL = st.sampled_from(
    [
        "'",
        '"',
        "\\",
        "\\'",
        "''",
        "\0",
        "\n",
        "\r",
        "\x1a",
        "%",
        "`",
        "\U0001f40b",
        "é",
        "中",
        ";--",
    ]
)


def characters(codec: str) -> SearchStrategy[str]:
    """Text that the character set holds."""

    def fits(char: str) -> bool:
        try:
            return char.encode(codec).decode(codec) == char
        except UnicodeError:
            return False

    if codec == "gbk":
        letters = st.characters(min_codepoint=0x4E00, max_codepoint=0x9FA5).filter(fits)
        letters |= st.characters(max_codepoint=0x7E)
    else:
        top = {"ascii": 0x7F, "cp1252": 0x2122, "utf-8": 0x10FFFF, "utf8mb3": 0xFFFF}[codec]
        letters = st.characters(max_codepoint=top, exclude_categories=["Cs"])
        if codec == "cp1252":
            letters = letters.filter(fits)
    special = SPECIAL.filter(lambda s: codec == "utf-8" or fits(s)) if codec != "utf8mb3" else None
    parts = letters if special is None else letters | special
    return st.lists(parts, max_size=30).map("".join)


def text_case(charset: str, codec: str, base: str = "varchar") -> Case:
    values = characters(codec)
    if base == "char":
        values = values.map(lambda text: text.rstrip(" "))
    type_text = base if base.endswith("text") else f"{base}(90)"
    collation = "utf8mb3_bin" if charset == "utf8mb3" else f"{charset}_bin"
    return Case(
        column("v", type_text, charset=charset, collation=collation),
        values,
        "HEX(CONVERT(v USING utf8mb4))",
        lambda shown: bytes.fromhex(shown).decode(),
        options=f"CHARACTER SET {charset} COLLATE {collation}",
        key=base != "longtext",
    )


def binary_case(type_text: str, size: tuple[int, int], *, key: bool = True) -> Case:
    values = st.binary(min_size=size[0], max_size=size[1])
    values |= st.text(max_size=size[1] // 4).map(str.encode).map(lambda b: b.ljust(size[0], b"'"))
    encoded = values.map(lambda raw: b64encode(raw).decode())
    read = lambda shown: b64encode(bytes.fromhex(shown)).decode()  # noqa: E731
    return Case(column("v", type_text, binary=True), encoded, "HEX(v)", read, key=key)


def times(low: int, high: int, fsp: int) -> SearchStrategy[str]:
    """Dates as MySQL stores them: a day or a month may be 0, and no calendar is looked at."""
    day = st.tuples(st.integers(low, high), st.integers(0, 12), st.integers(0, 31))
    clock = st.tuples(st.integers(0, 23), st.integers(0, 59), st.integers(0, 59))
    tail = st.integers(0, 10**fsp - 1).map(lambda n: f".{n:0{fsp}d}") if fsp else st.just("")
    zero = "0000-00-00 00:00:00" + (f".{'0' * fsp}" if fsp else "")
    made = st.builds(
        lambda d, c, f: f"{d[0]:04d}-{d[1]:02d}-{d[2]:02d} {c[0]:02d}:{c[1]:02d}:{c[2]:02d}{f}",
        day,
        clock,
        tail,
    )
    return made | st.just(zero)


def duration(parts: tuple[int, int, int, int, str]) -> str:
    hour, minute, second, micros, sign = parts
    zero = not (hour or minute or second or micros)
    return f"{'' if zero else sign}{hour:02d}:{minute:02d}:{second:02d}.{micros:06d}"


def integers(type_text: str, low: int, high: int) -> Case:
    values = st.integers(low, high) | st.sampled_from([low, high, 0])
    return Case(column("v", type_text), values)


def fixed(digits: int, scale: int) -> Case:
    def text(number: int) -> str:
        whole = str(abs(number)).rjust(scale + 1, "0")
        sign = "-" if number < 0 else ""
        return sign + (f"{whole[:-scale]}.{whole[-scale:]}" if scale else whole)

    top = 10**digits - 1
    values = (st.integers(-top, top) | st.sampled_from([-top, top, 1, -1])).map(text)
    return Case(column("v", f"decimal({digits},{scale})"), values)


def bits_of(value: Any) -> bytes:
    """MariaDB holds no negative zero."""
    return struct.pack(">d", float(value) + 0.0)


ELEMENTS = ("", "a", "it's", "b\\", '"', "é中", "\U0001f40b", "1", "nul\0", "sp ace", "`", "%s")
SET_ELEMENTS = tuple(one for one in ELEMENTS if one)
HEXED = ("HEX(CONVERT(v USING utf8mb4))", lambda shown: bytes.fromhex(shown).decode())
LISTED = ",".join(quote(one) for one in ELEMENTS)
SET_LISTED = ",".join(quote(one) for one in SET_ELEMENTS)
ENUMERATED = "CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
JSONS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 64) - 1)
    | characters("utf-8")
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(characters("utf-8"), inner, max_size=3)
    ),
    max_leaves=5,
).filter(lambda value: value is not None)

CASES = {
    "tinyint": integers("tinyint", -128, 127),
    "smallint unsigned": integers("smallint unsigned", 0, 65535),
    "mediumint": integers("mediumint", -(1 << 23), (1 << 23) - 1),
    "int": integers("int", -(1 << 31), (1 << 31) - 1),
    "bigint": integers("bigint", -(1 << 63), (1 << 63) - 1),
    "bigint unsigned": integers("bigint unsigned", 0, (1 << 64) - 1),
    "decimal(65,30)": fixed(65, 30),
    "decimal(65,0)": fixed(65, 0),
    "decimal(9,9)": fixed(9, 9),
    "float": Case(
        column("v", "float"),
        st.floats(width=32, allow_nan=False, allow_infinity=False).map(shortest_float32),
        "CAST(v AS DOUBLE)",
        bits_of,
        lambda value: bits_of(struct.unpack("<f", struct.pack("<f", value))[0]),
    ),
    "double": Case(
        column("v", "double"),
        st.floats(allow_nan=False, allow_infinity=False),
        "v",
        bits_of,
        bits_of,
    ),
    "year": Case(column("v", "year"), st.integers(1901, 2155) | st.just(0), read=int, expected=int),
    "date": Case(column("v", "date"), times(0, 9999, 0).map(lambda text: text[:10])),
    "datetime": Case(column("v", "datetime"), times(0, 9999, 0)),
    "datetime(6)": Case(column("v", "datetime(6)", scale=6), times(0, 9999, 6)),
    "timestamp(6)": Case(
        column("v", "timestamp(6)", scale=6),
        st.datetimes(
            min_value=datetime.fromisoformat("1970-01-01 00:00:01"),
            max_value=datetime.fromisoformat("2038-01-19 03:14:07"),
        ).map(lambda at: at.isoformat(" ", "microseconds"))
        | st.just("0000-00-00 00:00:00.000000"),
    ),
    "time(6)": Case(
        column("v", "time(6)", scale=6),
        st.tuples(
            st.integers(0, 838),
            st.integers(0, 59),
            st.integers(0, 58),
            st.integers(0, 999_999),
            st.sampled_from(["", "-"]),
        ).map(duration)
        | st.sampled_from(["838:59:59.000000", "-838:59:59.000000"]),
    ),
    "varchar utf8mb4": text_case("utf8mb4", "utf-8"),
    "char utf8mb4": text_case("utf8mb4", "utf-8", "char"),
    "longtext utf8mb4": text_case("utf8mb4", "utf-8", "longtext"),
    "varchar utf8mb3": text_case("utf8mb3", "utf8mb3"),
    "varchar latin1": text_case("latin1", "cp1252"),
    "varchar ascii": text_case("ascii", "ascii"),
    "varchar gbk": text_case("gbk", "gbk"),
    "varbinary": binary_case("varbinary(120)", (0, 120)),
    "binary": binary_case("binary(16)", (16, 16)),
    "longblob": binary_case("longblob", (0, 300), key=False),
    "enum": Case(
        column("v", f"enum({LISTED})", elems=ELEMENTS),
        st.sampled_from(ELEMENTS),
        *HEXED,
        options=ENUMERATED,
    ),
    "set": Case(
        column("v", f"set({SET_LISTED})", elems=SET_ELEMENTS),
        st.integers(0, (1 << len(SET_ELEMENTS)) - 1).map(
            lambda bits: ",".join(e for i, e in enumerate(SET_ELEMENTS) if bits >> i & 1)
        ),
        *HEXED,
        options=ENUMERATED,
    ),
    "json": Case(
        column("v", "json"),
        JSONS,
        HEXED[0],
        lambda shown: json.dumps(json.loads(bytes.fromhex(shown)), sort_keys=True),
        lambda value: json.dumps(value, sort_keys=True),
        key=False,
    ),
}
EACH = max(10, EXAMPLES // (len(CASES) + 2))


NAMES = st.text(
    st.characters(min_codepoint=1, max_codepoint=0xFFFF, exclude_categories=["Cs"])
    | st.sampled_from("`'\"\\ .;%"),
    max_size=50,
)
"""MySQL's identifiers are of the basic plane, at most 64 characters, without a space at the end."""
