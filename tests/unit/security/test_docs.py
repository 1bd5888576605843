"""The operators' page names every identity, and every setting of the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidelog.security.access import NatsAccess
from tidelog.security.identities import IDENTITIES
from tidelog.security.tls import TlsFiles

PAGE = (Path(__file__).parents[3] / "docs" / "security.md").read_text(encoding="utf-8")
SETTINGS = [
    name.replace("_", "-") for files in (NatsAccess, TlsFiles) for name in files.__struct_fields__
]


def test_the_table_has_each_identity_and_no_other() -> None:
    rows = [line.split("`")[1] for line in PAGE.splitlines() if line.startswith("| `")]
    assert rows == list(IDENTITIES)


@pytest.mark.parametrize("setting", SETTINGS)
def test_each_setting_is_told_of(setting: str) -> None:
    assert f"`{setting}`" in PAGE
