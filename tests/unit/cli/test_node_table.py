"""The table of nodes, whole at every width, and what is noted below it."""

from __future__ import annotations

import pytest
from rich.cells import cell_len
from rich.console import Console

from tidelog.messages import (
    APPLIER,
    CLOSING,
    DRAINER,
    JOINING,
    OFFLINE,
    ONLINE,
    PAUSED,
    PUMP,
    Nodes,
    NodeStatus,
)
from tidelog.node_form import node_forms
from tidelog.node_notes import notes
from tidelog.printable import printable
from tidelog.timestamps import compose, moment
from tidelog_cli.node_table import NodeTable, duration

NOW = compose(1_795_000_000_000, 7)


def name(length: int, letter: str = "p") -> str:
    return (f"{letter}-0123456789" * 30)[:length]


def cluster(length: int) -> Nodes:
    return Nodes(
        [
            NodeStatus(
                name(length),
                host="10.20.30.41:8250",
                state=ONLINE,
                isAlive=True,
                score=87,
                label={"zone": "eu-1", "disk": "nvme"},
                maxCommitTS=NOW,
                updateTS=NOW,
                resolvedTS=NOW,
            ),
            NodeStatus(
                name(length, "q"),
                state=CLOSING,
                maxCommitTS=NOW - (5000 << 18),
                resolvedTS=NOW - (5000 << 18),
                detail={"waiting": "for drainer of feed main", "error": "no space left"},
            ),
            NodeStatus(name(length, "d"), state=ONLINE, isAlive=True, kind=DRAINER, feed="main"),
            NodeStatus(name(length, "a"), state=OFFLINE, kind=APPLIER),
        ]
    )


def rendered(found: Nodes, width: int, kind: str = "") -> list[str]:
    console = Console(width=width, color_system=None, legacy_windows=False)
    with console.capture() as capture:
        console.print(NodeTable(node_forms(found, kind)))
    return capture.get().splitlines()


def squeezed(lines: list[str]) -> str:
    """What stands there, however it was folded."""
    return "".join("".join(lines).split())


WIDTHS = (24, 25, 30, 40, 47, 60, 72, 80, 100, 120, 132, 160, 200, 400)
LENGTHS = (6, 12, 25, 64, 255)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("length", LENGTHS)
def test_nothing_is_cut_or_broken_at_any_width(width: int, length: int) -> None:
    lines = rendered(cluster(length), width)
    assert all(cell_len(line) <= width for line in lines)
    assert "…" not in "".join(lines)
    states = [line for line in lines if "closing, unreachable" in line]
    assert len(states) == 1, "a state is never folded"
    rules = [line for line in lines if set(line) == {"─"}]
    assert len(rules) <= 1
    if rules:
        assert max(map(len, map(str.rstrip, lines))) <= len(rules[0])


@pytest.mark.parametrize("width", WIDTHS)
def test_everything_is_told_at_any_width(width: int) -> None:
    pump, closing = (rendered(Nodes([node]), width) for node in cluster(6).nodes[:2])
    for said in (str(NOW), "10.20.30.41:8250", "disk=nvme,zone=eu-1", "2026-11-18", "87"):
        assert said in squeezed(pump), said
    for said in ("closing,unreachable", "error:nospaceleft", "waiting:fordraineroffeedmain"):
        assert said in squeezed(closing), said


@pytest.mark.parametrize("width", WIDTHS)
def test_every_character_of_a_name_is_there(width: int) -> None:
    one = Nodes([NodeStatus("".join(chr(0x4E00 + n) for n in range(120)), state=ONLINE)])
    lines = rendered(one, width)
    shown = [c for line in lines for c in line if ord(c) >= 0x4E00]
    assert shown == list(one.nodes[0].nodeId)
    assert all(cell_len(line) <= width for line in lines)


def test_a_wide_terminal_has_a_column_for_everything() -> None:
    head, _, *rows = rendered(cluster(6), 200)
    columns = [
        "node",
        "state",
        "kind",
        "feed",
        "host",
        "lag",
        "max commit ts",
        "committed",
        "updated",
    ]
    places = [head.index(column) for column in [*columns, "score", "label", "says"]]
    assert places == sorted(places)
    pump = next(row for row in rows if row.startswith(name(6)))
    for said in ("online", "0 ms", str(NOW), "2026-11-18 11:06:40", "87", "disk=nvme, zone=eu-1"):
        assert said in pump
    assert sum(row.startswith(("p-", "q-", "d-", "a-")) for row in rows) == 4


def test_what_has_no_column_is_named_in_the_last_one() -> None:
    lines = rendered(cluster(6), 80)
    assert lines[0].split()[:2] == ["node", "state"]
    assert f"max commit ts {NOW}" in "\n".join(lines)
    paragraphs = rendered(cluster(6), 24)
    assert paragraphs[paragraphs.index(name(6)) + 1].strip() == "online"


def test_a_column_that_nobody_fills_is_left_out() -> None:
    found = Nodes([NodeStatus("p1", state=ONLINE, isAlive=True)])
    assert rendered(found, 80)[0].split() == ["node", "state", "kind"]


def test_no_order_to_the_terminal_gets_through() -> None:
    found = Nodes([NodeStatus("a\x1b[2Jb\nc", detail={"err\x07or": "\u202edrow\r\n"})])
    text = "".join(rendered(found, 100))
    assert not {"\x1b", "\x07", "\r", "\u202e"} & set(text)
    assert printable("a\x1b\n") == "a\\x1b\\n"


def test_lags_are_of_positions_that_are_known() -> None:
    behind = NOW - (1500 << 18)
    found = Nodes(
        [
            NodeStatus("p1", state=ONLINE, isAlive=True, resolvedTS=NOW),
            NodeStatus("p2", state=PAUSED, resolvedTS=behind),
            NodeStatus("p3", state=OFFLINE, resolvedTS=1),
            NodeStatus("p4", state=JOINING, isAlive=True),
            NodeStatus("d1", kind=DRAINER, state=ONLINE, resolvedTS=behind - (500 << 18)),
            NodeStatus("d2", kind=DRAINER, state=ONLINE),
        ]
    )
    lags = {form["nodeId"]: form["lag_ms"] for form in node_forms(found)}
    assert lags == {"p1": 0, "p2": 1500, "p3": None, "p4": None, "d1": 500, "d2": None}
    assert [form["nodeId"] for form in node_forms(found, DRAINER)] == ["d1", "d2"]


def test_times_as_an_eye_wants_them() -> None:
    assert [duration(ms) for ms in (0, 999, 1500, 61_000, 3_660_000)] == [
        "0 ms",
        "999 ms",
        "1.5 s",
        "1 min 01 s",
        "1 h 01 min",
    ]
    assert moment(0) == ""
    assert moment(NOW) == "2026-11-18 11:06:40"
    assert moment((1 << 63) - 1)


def test_notes_say_what_to_do() -> None:
    def of(*nodes: NodeStatus) -> list[str]:
        return notes(node_forms(Nodes(list(nodes))))

    paused = NodeStatus("p1", state=PAUSED, isAlive=True)
    writable = NodeStatus("p2", state=ONLINE, isAlive=True)
    assert of(writable, NodeStatus("d", kind=DRAINER, state=ONLINE, isAlive=True)) == []
    first, second = of(paused)
    assert first == "no Pump takes writes"
    assert "`tidelog resume p1`" in second
    assert len(of(paused, writable)) == 1
    (gone,) = of(writable, NodeStatus("p3", state=ONLINE))
    assert "the merge waits for it" in gone
    assert "`tidelog offline p3 --accept-loss`" in gone
    (stopped,) = of(writable, NodeStatus("p3", state=PAUSED, updateTS=NOW))
    assert "p3 is paused and unreachable, last heard of at 2026-11-18 11:06:40" in stopped
    assert "the merge waits for it" in stopped
    (reader,) = of(NodeStatus("d", kind=DRAINER, state=ONLINE))
    assert "merge" not in reader
    assert of(NodeStatus("p4", state=OFFLINE, kind=PUMP)) == []


def test_a_pump_that_holds_the_merge_back_is_named() -> None:
    def told(behind_ms: int, open_prewrites: int, *, alive: bool = True) -> list[str]:
        held = NOW - (behind_ms << 18)
        late = NodeStatus("p1", state=ONLINE, isAlive=alive, resolvedTS=held, open=open_prewrites)
        other = NodeStatus("p2", state=ONLINE, isAlive=True, resolvedTS=NOW)
        return notes(node_forms(Nodes([late, other])))

    (line,) = told(180_000, 1)
    assert line.startswith("p1 holds the merge back, by 180 s now: a Prewrite is open there")
    assert told(29_000, 1) == []
    assert told(180_000, 0) == []
    assert [line for line in told(180_000, 1, alive=False) if "holds" in line] == []
