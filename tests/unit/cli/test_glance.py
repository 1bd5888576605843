"""What `status --watch` and the demo draw again and again fits its terminal, whatever its size."""

from __future__ import annotations

import pytest
from rich.cells import cell_len
from rich.console import Console

from tidelog.messages import APPLIER, DRAINER, ONLINE, PAUSED, Nodes, NodeStatus
from tidelog.timestamps import compose
from tidelog_cli.demo import View
from tidelog_cli.glance import LEAST_NODES, Glance
from tidelog_cli.status import Report, report

NOW = compose(1_800_000_000_000)
LONG = "Prewrite 470655870776115201 is open, begun 4 s ago by its start_ts, watched for 4 s"
SIZES = [(60, 20), (80, 24), (120, 40), (40, 12), (200, 60)]


def found(pumps: int = 4) -> Report:
    nodes = [
        NodeStatus(f"pump-{n}", state=ONLINE, isAlive=True, resolvedTS=NOW, detail={"open": LONG})
        for n in range(pumps)
    ]
    gone = NodeStatus("pump-gone", state=ONLINE, resolvedTS=NOW, updateTS=NOW)
    held = NodeStatus("pump-held", state=PAUSED, isAlive=True, resolvedTS=NOW)
    readers = [
        NodeStatus("drainer", kind=DRAINER, state=ONLINE, isAlive=True, feed="main"),
        NodeStatus("applier", kind=APPLIER, state=ONLINE, isAlive=True, feed="main", resolvedTS=9),
    ]
    return report(Nodes([*nodes, gone, held, *readers]), "main")


def terminal(width: int, height: int) -> Console:
    return Console(
        width=width, height=height, force_terminal=True, color_system=None, legacy_windows=False
    )


def drawn(what: object, width: int, height: int) -> list[str]:
    console = terminal(width, height)
    with console.capture() as capture:
        console.print(what)
    return capture.get().splitlines()


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize("pumps", [1, 4, 100])
def test_it_fits_and_has_the_positions_what_to_do_and_who_is_in_trouble(
    width: int, height: int, pumps: int
) -> None:
    lines = drawn(Glance(found(pumps)), width, height)
    assert all(cell_len(line) <= width for line in lines)
    if height >= 20:
        assert len(lines) < height
    assert [line.split()[0] for line in lines[:4]] == ["feed", "resolved", "published", "applied"]
    head = next(at for at, line in enumerate(lines) if line.startswith("node "))
    nodes = [line.split()[0] for line in lines[head + 1 :]]
    assert {"pump-gone", "pump-held"} <= set(nodes)
    all_shown = len(nodes) == pumps + 4
    assert all_shown != any("tidelog nodes" in line for line in lines)


def test_what_is_not_known_yet_is_no_number() -> None:
    lines = drawn(Glance(report(Nodes([]), "main")), 80, 24)
    assert [line.split(maxsplit=1)[1] for line in lines[1:4]] == ["not known yet"] * 3


def test_into_a_pipe_goes_everything() -> None:
    console = Console(width=80, height=10, force_terminal=False)
    with console.capture() as capture:
        console.print(Glance(found(50)))
    assert capture.get().count("pump-") >= 52


@pytest.mark.parametrize(("width", "height"), SIZES[:3])
def test_the_demo_fits_its_terminal(width: int, height: int) -> None:
    view = View()
    view.step = "200 transactions a second, schema changes, clients that die"
    names = ("committed", "txn/s", "rows", "schema changes", "rolled back", "clients died")
    view.counts, view.report = dict.fromkeys(names, 123_456), found()
    lines = drawn(view.render(), width, height)
    assert len(lines) <= height
    assert lines[-1].startswith("╰")
    text = "\n".join(lines)
    assert "clients died 123456" in text
    assert "applied" in text


def test_notes_leave_nodes_their_lines() -> None:
    lines = Glance(found(30)).lines(terminal(40, 12), 40, 11)
    head = next(at for at, line in enumerate(lines) if line.plain.startswith("node"))
    assert len(lines) - head - 1 >= LEAST_NODES
