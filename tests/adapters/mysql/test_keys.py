"""Values that a server takes for equal never have different keys: asked of a real MariaDB."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator
from typing import Any

import pymysql
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.servers import mariadb_server
from tests.unit.downstreams.shapes import column, table
from tidelog.downstream import TableRule
from tidelog.downstreams import collations
from tidelog.plan.keys import TableKeys, Unsure
from tidelog.schema.structure import ColumnStructure, KeyPart

PRINTABLE = "".join(map(chr, range(32, 127)))
TRICKY = [
    *"aAbBeEiIjJsSuUvVyYzZ 09-_'\"\\%/",
    *("ae", "AE", "oe", "ss", "ch", "Ch", "ll", "cs", "dz", "ij", "  "),
    *("\0", "\x01", "\t", "\n", "\x1f", "\x7f", "\x80", "\xa0", "\xad", "?"),
    *("á", "Á", "ä", "å", "ß", "æ", "Æ", "œ", "ı", "İ", "ÿ", "ŀ", "ﬁ", "Ａ", "ª", "²", "①"),
    *("e\u0301", "\u0301", "\u200b", "\u200d", "\ufeff", "\u2028", "\u3000", "\ufffd"),
    *("λ", "Λ", "σ", "ς", "д", "Д", "ا", "中", "あ", "ア", "ｱ", "𝐚", "😀", "😁"),
]
"""Of which some are equal, or without weight, or two characters, in some collation."""
TEXTS = st.lists(st.lists(st.sampled_from(TRICKY), max_size=4).map("".join), max_size=150)

COLLATIONS = [
    ("utf8mb4", "utf8mb4_bin"),
    ("utf8mb4", "utf8mb4_nopad_bin"),
    ("utf8mb4", "utf8mb4_general_ci"),
    ("utf8mb4", "utf8mb4_general_nopad_ci"),
    ("utf8mb4", "utf8mb4_unicode_ci"),
    ("utf8mb4", "utf8mb4_unicode_520_ci"),
    ("utf8mb4", "utf8mb4_unicode_520_nopad_ci"),
    ("utf8mb4", "utf8mb4_uca1400_ai_ci"),
    ("utf8mb4", "utf8mb4_uca1400_nopad_ai_ci"),
    ("utf8mb4", "utf8mb4_uca1400_as_cs"),
    ("utf8mb3", "utf8mb3_bin"),
    ("utf8mb3", "utf8mb3_general_ci"),
    ("utf8mb3", "utf8mb3_unicode_ci"),
    ("latin1", "latin1_bin"),
    ("latin1", "latin1_swedish_ci"),
    ("ascii", "ascii_bin"),
    ("ascii", "ascii_general_ci"),
    ("gbk", "gbk_bin"),
]

OTHERS = [
    (
        column("v", "decimal(10,3)"),
        ["0", "-0", "0.000", "-0.000", "1", "1.5", "1.50", "1.500", "-1.5", "10", "100", "100.000"],
    ),
    (column("v", "double"), [0.0, -0.0, 1.5, -1.5, 1e300, 5e-324, 0.1, 0.30000000000000004, 0.3]),
    (column("v", "float"), [0.0, -0.0, 1.5, 0.1, 16777216.0, 1e-45]),
    (column("v", "time(1)"), ["00:00:00.0", "-00:00:00.0", "01:00:00.5", "-01:00:00.5"]),
    (column("v", "binary(4)"), [b"", b"\0", b"a", b"a\0", b"a\0\0\0", b"A", b"a ", b"\0a"]),
    (column("v", "varbinary(4)"), [b"", b"\0", b"a", b"a\0", b"A", b"a "]),
    (column("v", "bigint unsigned"), [0, 1, 2**63, 2**64 - 1]),
]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[pymysql.connections.Connection]:
    with (
        mariadb_server(tmp_path_factory.mktemp("keys")) as server,
        pymysql.connect(host=server.host, port=server.port, user=server.user) as connection,
    ):
        with connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE d")
            # As under sync-mode 2: what a column can't hold becomes something else.
            cursor.execute("SET sql_mode = ''")
        yield connection


def equal_pairs(
    session: pymysql.connections.Connection, kind: str, literals: list[str]
) -> list[tuple[int, int]]:
    """Which of the values, by number, are equal once they are in a column."""
    with session.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS d.t")
        cursor.execute(f"CREATE TABLE d.t (n INT PRIMARY KEY, v {kind})")
        rows = ",".join(f"({n},{literal})" for n, literal in enumerate(literals))
        cursor.execute(f"INSERT IGNORE INTO d.t VALUES {rows}")
        cursor.execute("SELECT a.n, b.n FROM d.t a JOIN d.t b ON a.v = b.v AND a.n < b.n")
        return [(int(one), int(other)) for one, other in cursor.fetchall()]


def text_literals(texts: list[str]) -> list[str]:
    return [f"CONVERT(x'{text.encode().hex()}' USING utf8mb4)" for text in texts]


def keys_of(definition: ColumnStructure) -> TableKeys:
    structure = table("t", definition, key=("v",))
    found = TableKeys(structure, TableRule(False, True, ((KeyPart("v"),),)))
    assert not found.unsure
    return found


def may_differ(keys: TableKeys, one: Any, other: Any) -> bool:
    """Whether the two would be taken for different values."""
    try:
        return keys.first({"v": one}, ()) != keys.first({"v": other}, ())
    except Unsure:
        return False


def check_texts(
    session: pymysql.connections.Connection, charset: str, collation: str, texts: list[str]
) -> int:
    """Returns how many pairs are equal."""
    keys = keys_of(column("v", "varchar(40)", charset=charset, collation=collation))
    kind = f"VARCHAR(40) CHARACTER SET {charset} COLLATE {collation}"
    pairs = equal_pairs(session, kind, text_literals(texts))
    for one, other in pairs:
        assert not may_differ(keys, texts[one], texts[other]), (texts[one], texts[other])
    return len(pairs)


@pytest.mark.parametrize(("charset", "collation"), COLLATIONS)
def test_equal_texts_have_equal_keys(
    session: pymysql.connections.Connection, charset: str, collation: str
) -> None:
    @settings(
        max_examples=15, deadline=None, suppress_health_check=list(HealthCheck), database=None
    )
    @given(TEXTS)
    def ask(texts: list[str]) -> None:
        if texts:
            check_texts(session, charset, collation, texts)

    ask()
    tried = [*TRICKY, *(f"a{one}" for one in TRICKY), *(f"{one}a" for one in TRICKY)]
    assert check_texts(session, charset, collation, tried) > 0


@pytest.mark.parametrize(("charset", "collation"), COLLATIONS)
def test_printable_ascii_is_told_apart_but_for_case(
    session: pymysql.connections.Connection, charset: str, collation: str
) -> None:
    """Every character, alone and in a text: else a collation would not be on the list."""
    check_texts(session, charset, collation, list(PRINTABLE))
    check_texts(session, charset, collation, [f"x{one}x" for one in PRINTABLE])
    pairs = [one + other for one in PRINTABLE[::3] for other in "acehijlsuz'- "]
    check_texts(session, charset, collation, pairs)


@pytest.mark.parametrize(("definition", "values"), OTHERS)
def test_equal_values_of_other_types_have_equal_keys(
    session: pymysql.connections.Connection, definition: ColumnStructure, values: list[Any]
) -> None:
    literals = [f"x'{v.hex()}'" if isinstance(v, bytes) else repr(v) for v in values]
    shown = [b64encode(v).decode() if isinstance(v, bytes) else v for v in values]
    keys = keys_of(definition)
    for one, other in equal_pairs(session, definition.type, literals):
        assert not may_differ(keys, shown[one], shown[other]), (shown[one], shown[other])


@pytest.mark.parametrize(
    ("charset", "collation", "key"),
    [
        ("utf8mb4", "utf8mb4_general_ci", collations.unicode_key),
        ("utf8mb4", "utf8mb4_unicode_ci", collations.unicode_key),
        ("utf8mb4", "utf8mb4_uca1400_ai_ci", collations.unicode_key),
        ("gbk", "gbk_chinese_ci", collations.gbk_key),
    ],
)
def test_characters_that_sqlites_keys_take_for_equal_weigh_the_same(
    session: pymysql.connections.Connection,
    charset: str,
    collation: str,
    key: Callable[[str], str],
) -> None:
    """Every one of the basic plane. The newest of Unicode's stands for `utf8mb4_0900_ai_ci`."""
    every = [chr(n) for n in range(1 << 16) if not 0xD800 <= n < 0xE000]
    with session.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS d.t")
        cursor.execute(f"CREATE TABLE d.t (n INT, v VARCHAR(1) CHARACTER SET {charset})")
        for at in range(0, len(every), 8192):
            literals = zip(every[at:], text_literals(every[at : at + 8192]), strict=False)
            rows = ",".join(f"({ord(char)},{literal})" for char, literal in literals)
            cursor.execute(f"INSERT IGNORE INTO d.t VALUES {rows}")
        cursor.execute(f"SELECT n, WEIGHT_STRING(v COLLATE {collation}) FROM d.t")
        weights = {chr(n): weight for n, weight in cursor.fetchall()}
    assert len(weights) == len(every)
    first: dict[str, str] = {}
    wrong = [
        (first[key(char)], char)
        for char in every
        if weights[first.setdefault(key(char), char)] != weights[char]
    ]
    assert not wrong
    assert key("aZ") == key("Az")
