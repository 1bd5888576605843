"""Damage is met and told; `make models` has an eighth of all, `tests.crash.damage` all."""

from __future__ import annotations

import re

import pytest

from tests.crash.damage import KINDS, closing, meet
from tidelog import sealed

FEW = 100


@pytest.mark.parametrize("kind", KINDS)
def test_no_damage_is_silent(kind: str) -> None:
    found = meet(kind, FEW, 3)
    assert not found.wrong
    assert found.flips.total() > 200
    assert found.cuts.total() > 20


def test_too_few_cases_and_silent_damage_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    line, is_right = closing([meet("purge point", FEW, 3)], FEW, 3)
    assert not is_right
    assert re.search(r"\d+ cases, \d+ FEWER THAN ASKED FOR \(", line)
    never = re.compile(rb'()\n"crc32c [0-9a-f]{8}"\n$')
    monkeypatch.setattr(sealed, "_SEAL", never)
    monkeypatch.setattr(sealed, "crc32c", lambda _: 0)
    monkeypatch.setattr(sealed, "int", lambda *_: 0, raising=False)
    assert any("PurgeRecord(" in line for line in meet("purge point", FEW, 3).wrong)
