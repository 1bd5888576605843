"""Which texts SQLite's keys take for equal: never two that the upstream tells apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.downstreams.shapes import column, created, ddl, table
from tests.unit.downstreams.test_sqlite import ID, Rig, V, run
from tidelog.downstreams.collations import CASE_INSENSITIVE
from tidelog.schema.structure import KeyPart, KeyStructure

APART = [("мой", "мои"), ("かき", "かぎ"), ("آب", "اب"), ("ı", "i"), ("\u0387", "\u00b7")]


@pytest.mark.parametrize(("one", "other"), APART)
def test_two_keys_that_the_upstream_tells_apart_are_two_rows(
    tmp_path: Path, one: str, other: str
) -> None:
    ci = column("k", "varchar(9)", collation="utf8mb4_general_ci")
    by_key = table("a", ci, V, key=("k",))
    unique = KeyStructure("u", (KeyPart("k"),), unique=True)
    by_other = table("b", ID, ci, key=("id",), keys=(unique,))

    async def scenario(rig: Rig) -> None:
        await rig.ddl(ddl("create_table", (None, by_key), (None, by_other)))
        for number, text in enumerate((one, other)):
            await rig.rows(by_key, created({"k": text, "v": "x"}))
            await rig.rows(by_other, created({"id": number, "k": text}))

    rig = run(tmp_path, scenario)
    for name in ("a", "b"):
        assert sorted(rig.read(f'SELECT k FROM "d.{name}"')) == sorted([(one,), (other,)])


@pytest.mark.parametrize("collation", [name for name in CASE_INSENSITIVE if "gbk" not in name])
def test_letters_that_all_of_them_call_equal_are(collation: str) -> None:
    compare = CASE_INSENSITIVE[collation]
    for one, other in (("Éte", "ETE"), ("ΆΣ", "ασ"), ("МОЙ", "мой"), ("Ấ", "a")):
        assert compare(one, other) == 0
    assert compare("a", "B") < 0 < compare("й", "и")


def test_gbk_has_case_in_ascii_only() -> None:
    compare = CASE_INSENSITIVE["gbk_chinese_ci"]
    assert compare("aB ", "Ab") == 0
    assert compare("é", "e")
    assert compare("Α", "α")
