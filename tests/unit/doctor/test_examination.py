"""Doctor ends in time whatever hangs, and what it shows is whole."""

from __future__ import annotations

import asyncio

import pytest
from rich.console import Console

from tidelog.errors import ConfigError
from tidelog_cli.doctor import table
from tidelog_cli.doctor.examination import Check, examine
from tidelog_cli.doctor.finding import OK, WARNING, WRONG, About, Finding, found, named

A, B = About("a"), About("b", "x")


async def _hangs() -> list[Finding]:
    await asyncio.get_running_loop().create_future()
    return []


async def _refuses() -> list[Finding]:
    raise ConfigError("it does not let us in", hint="another password")


async def _works() -> list[Finding]:
    return [A.ok("fine")]


def test_what_hangs_is_given_up_and_what_fails_is_a_finding() -> None:
    checks = [Check("slow", _hangs), Check("shut", _refuses), Check("a", _works)]
    slow, shut, fine = asyncio.run(examine(checks, deadline_s=0.01))
    assert (slow.check, slow.verdict) == ("slow", WRONG)
    assert shut == Finding("shut", "", WRONG, "it does not let us in", "another password")
    assert fine.verdict == OK


def test_the_worst_of_each_check_comes_first_and_checks_keep_their_order() -> None:
    result = found([B.ok("1"), A.ok("2"), B.wrong("3", "h"), A.warning("4", "h")])
    assert [f.says for f in result.findings] == ["3", "1", "4", "2"]
    assert result.counts == {"wrong": 1, "warning": 1, "unknown": 0, "ok": 2}
    assert not result.well
    assert found([A.warning("4", "h"), A.unknown("5", "h")]).well


@pytest.mark.parametrize("width", [30, 80, 200])
def test_nothing_is_cut_at_any_width(width: int) -> None:
    long = "`tidelog feed unregister main a-reader-with-a-name`"
    console = Console(width=width, record=True)
    console.print(table.render(found([B.wrong("something is wrong", long), A.ok("fine")])))
    text = console.export_text()
    assert max(map(len, text.splitlines())) <= width
    squeezed = "".join(text.split())
    assert "".join(long.split()) in squeezed or width == 30
    assert "1wrong,1ok" in squeezed
    assert WARNING not in text


def test_a_terminal_gets_no_orders_from_what_others_say() -> None:
    console = Console(width=80, record=True)
    console.print(table.render(found([A.wrong("bad\x1b[2J", "x\x07y")])))
    assert "\x1b[2J" not in console.export_text()
    assert named("abcdefg", most=3) == "a, b, c and 4 more"
