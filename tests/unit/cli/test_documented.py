"""What the documents print is what the program takes and gives: commands, options, URLs, JSON."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any

import msgspec
import pytest
import typer.main

from tidelog import changes
from tidelog.applier_control import DecidedStep
from tidelog.bulk.control import JobStatus
from tidelog.bulk.told import Report
from tidelog.changes import DdlMessage, Event, MarkedTxn, Marker, RowMessage, Watermark
from tidelog.config import load
from tidelog.decode.ddl_policy import DdlPolicy
from tidelog.decode.noted import LISTED
from tidelog.downstreams.target import Target
from tidelog.drainer_control import ACTIONS, Ddl, DecidedDdl, FeedDdls
from tidelog.feeds import Feed
from tidelog.messages import ErrorReply, Nodes, NodeStatus, StateReply
from tidelog.node_form import node_forms
from tidelog.pump_control import Inspected
from tidelog.rows.column import JSON_NULL
from tidelog.skipped import Skipped
from tidelog.subjects import changes_ddl, changes_row
from tidelog_applier.config import ApplierConfig
from tidelog_backfill.config import BackfillConfig
from tidelog_cli import capture, feed, inspect_report, operate, resolve, status, tail, watch
from tidelog_cli.app import app
from tidelog_cli.inspect_relay import RelayInspection, RelayLine, RelayReport
from tidelog_cli.verify import report
from tidelog_drainer.config import DrainerConfig
from tidelog_pump.config import PumpConfig
from tidelog_registry.config import RegistryConfig

ROOT = Path(__file__).parents[3]
GUIDES = [
    str(path.relative_to(ROOT))
    for pattern in ("*.md", "docs/**/*.md", "services/*/README.md")
    for path in sorted(ROOT.glob(pattern))
    if path.name != "CHANGELOG.md"
]
NODES = Nodes([NodeStatus("p")])


def text(guide: str) -> str:
    return (ROOT / guide).read_text()


def quoted(form: str) -> set[str]:
    return set(re.findall(r'"(\w+)"', form))


def fields(*kinds: type[msgspec.Struct]) -> set[str]:
    return {field for kind in kinds for field in kind.__struct_fields__}


@cache
def commands() -> dict[str, Any]:
    top = typer.main.get_command(app)
    assert isinstance(top, typer.core.TyperGroup)
    return dict(top.commands)


def _is_no_pipe(word: str) -> bool:
    """Nor sends it something to a file; what stands in quotes is part of a longer word."""
    return not word.startswith((">", "|", "<"))


def shell_lines() -> Iterator[tuple[str, list[str]]]:
    """Each `tidelog …` of a shell block, as its words."""
    for guide in GUIDES:
        for block in re.findall(r"```sh\n(.*?)```", text(guide), re.DOTALL):
            for line in block.replace("\\\n", " ").splitlines():
                words = list(takewhile(_is_no_pipe, shlex.split(line, comments=True)))
                if words[:3] == ["docker", "compose", "exec"]:
                    words = words[4:]
                if words and Path(words[0]).name == "tidelog":
                    yield guide, words[1:]


def is_alone(group: Any, words: list[str]) -> bool:
    """A group that does something by itself, and none of its commands is named."""
    return group.invoke_without_command and (not words or words[0].startswith("-"))


def test_documented_commands_parse() -> None:
    seen = 0
    for guide, words in shell_lines():
        command: Any = typer.main.get_command(app)
        while (inner := getattr(command, "commands", None)) is not None:
            if is_alone(command, words):
                break
            assert words[0] in inner, f"{guide}: {words}"
            command, words = inner[words[0]], words[1:]
        context = command.make_context("tidelog", words, resilient_parsing=False)
        url = context.params.get("downstream")
        if url not in (None, "", "…"):
            Target.parse(url)
        seen += 1
    assert seen >= 30


def test_commands_and_options_in_running_text_exist() -> None:
    for guide in GUIDES:
        for span in re.findall(r"`tidelog ([a-z][^`]*)`", text(guide)):
            name, *rest = span.split()
            assert name in commands(), f"{guide}: {span}"
            known = commands()[name]
            inner: dict[str, Any] = getattr(known, "commands", {})
            if inner and not is_alone(known, rest):
                known = inner[rest[0]]
            options = {option for parameter in known.params for option in parameter.opts}
            for option in re.findall(r"--[a-z-]+", span):
                assert option in options, f"{guide}: {span}"


def test_the_example_configurations_load() -> None:
    """Those that the page has copied."""
    configs = (RegistryConfig, PumpConfig, DrainerConfig, ApplierConfig, BackfillConfig)
    by_name = {config.__module__.split(".")[0]: config for config in configs}
    lines = re.findall(r"^python -m (\w+) (--config .*)$", text("docs/operating.md"), re.MULTILINE)
    assert {name for name, _ in lines} == set(by_name)
    for name, words in lines:
        flag, copied = words.split()
        (path,) = ROOT.glob(f"services/*/{copied}")
        config = load(by_name[name], name, [flag, str(path)], {})
        assert (config.cluster, config.data_dir.split("/")[0]) == ("default", "data")


def table_row(guide: str, first: str) -> str:
    """The rest of the row whose first cell begins so."""
    (row,) = [line for line in text(guide).splitlines() if line.startswith(f"| {first}")]
    return row.removeprefix(f"| {first}")


@pytest.mark.parametrize(
    ("subject", "kinds"),
    [
        ("row.<db>.<table>", (RowMessage, Event)),
        ("ddl.<db>.<table>", (DdlMessage,)),
        ("txn", (Marker, MarkedTxn)),
        ("watermark", (Watermark,)),
    ],
)
def test_the_stream_s_bodies(subject: str, kinds: tuple[type[msgspec.Struct], ...]) -> None:
    assert quoted(table_row("docs/reading.md", f"`changes.<feed>.{subject}`")) == fields(*kinds)


def test_what_is_null_is_left_out_of_events_and_nothing_else() -> None:
    bare = msgspec.to_builtins(RowMessage("d", "t", 1, [Event("c", 5)]))
    assert bare["events"] == [{"op": "c", "commit_ts": 5}]
    txn = msgspec.to_builtins(MarkedTxn(5, 4, 0))
    assert set(txn) == fields(MarkedTxn) - {"skipped"}
    told = msgspec.structs.replace(MarkedTxn(5, 4, 0), skipped=Skipped("c", "why", 1, 2, 3))
    assert "skipped" in msgspec.to_builtins(told)
    assert set(msgspec.to_builtins(DdlMessage(1, "q", "k", "d", 1))) == fields(DdlMessage)


def test_the_stream_s_headers_names_and_limits() -> None:
    guide = text("docs/reading.md")
    headers = {value for name, value in vars(changes).items() if name.startswith("H_")}
    for header in headers:
        assert f"`{header}`" in guide
    assert changes_row("f", "d", "t.1").endswith(".t=2E1")
    assert changes_ddl("f", "shop", "").endswith(".ddl.shop.=")
    assert "`t=2E1`" in guide
    assert "`changes.<feed>.ddl.shop.=`" in guide
    assert f"cut at {changes.MESSAGE_BYTES >> 10} KiB" in guide
    assert f"`{JSON_NULL}`" in guide
    kept = DrainerConfig()
    days, gib = kept.changes_max_age_s / 86_400, kept.changes_max_bytes >> 30
    assert f"{days:.0f} days or {gib} GiB" in guide.replace("\n", " ")


def test_a_node() -> None:
    guide = text("docs/operating.md")
    table = guide.split("| field | what |")[1].split("\n\n")[0]
    names = {
        name
        for line in table.splitlines()[2:]
        for name in re.findall(r"`(\w+)`", line.split("|")[1])
    }
    assert names == set(node_forms(NODES)[0])


def test_status() -> None:
    shown = status.report(NODES, "f")
    (form,) = re.findall(r"`tidelog status --json`: `(.*)`", text("docs/operating.md"))
    consumer = {"name", "commit_ts"}
    assert quoted(form) == set(shown) | set(shown["lag_ms"]) | consumer


def test_bulk_jobs() -> None:
    report, job = Report(7), JobStatus("id", "replay", "done", {})
    for row, body in (("`replay`, `backfill`", report), ("`jobs`", job)):
        assert quoted(table_row("docs/replay.md", row)) == set(msgspec.to_builtins(body))


def test_watch() -> None:
    told = watch.Line(watch.CHANGED, 1, NodeStatus("p"), "online")
    form = set(watch.as_form(told))
    assert form == {"event", "at_ms", "was", "unreachable"} | fields(NodeStatus)
    assert set(node_forms(NODES)[0]) - form == {"lag_ms"}
    for event in (watch.CHANGED, watch.SEEN, watch.MISSED):
        table_row("docs/operating.md", f"`{event}`")


def test_an_order_and_the_errors_of_http() -> None:
    guide = text("docs/operating.md")
    (form,) = re.findall(r'at the end: `(\{"node".*?\})`', guide)
    assert quoted(form) == fields(operate.Operated)
    (form,) = re.findall(r"error's body is `(.*?)`", guide)
    assert quoted(form) == set(msgspec.to_builtins(ErrorReply("c", "m")))
    row = table_row("docs/operating.md", "PUT `/state/{node}/{action}`")
    assert quoted(row) == fields(StateReply)


@pytest.mark.parametrize(
    ("command", "found"),
    [
        (
            "tail",
            {
                "commit_ts",
                "ddl",
                "db",
                "table",
                "op",
                "key",
                "before",
                "after",
                "b64",
                "resolved_ts",
            },
        ),
        ("wait", {"applied_ts"}),
        ("resolve", fields(resolve.Resolution, Inspected)),
        ("ddl done`, `ddl again", fields(DecidedStep)),
        ("ddl` and its orders", fields(FeedDdls, Ddl, DecidedDdl)),
        ("feed create`, `feed list`, `feed show", fields(Feed)),
        ("feed forget", fields(feed.ForgottenFeed)),
        ("feed unregister", fields(feed.Unregistered)),
        ("inspect", fields(inspect_report.Inspection, inspect_report.Report)),
        ("inspect RELAY", fields(RelayInspection, RelayReport, RelayLine)),
        ("capture replay", fields(capture.Replayed)),
        ("verify", fields(report.Report, report.TableResult, report.Difference)),
    ],
)
def test_other_commands(command: str, found: set[str]) -> None:
    first = f"`{command}" + "`" * ("`" not in command)
    assert quoted(table_row("docs/operating.md", first)) == found


def test_the_lines_of_tail() -> None:
    rows = RowMessage("d", "t", 1, [Event("c", 5)])
    assert set(tail.ddl_line(DdlMessage(5, "q", "k", "d", 1))) == {"commit_ts", "ddl", "db"}
    row = {"commit_ts", "table", "op", "key", "before", "after", "b64"}
    assert set(tail.event_line(rows, rows.events[0])) == row
    assert tail.watermark_line(6) == {"resolved_ts": 6}


def test_ddl_policies_and_reasons() -> None:
    guide = text("docs/operating.md")
    for action in ACTIONS:
        table_row("docs/operating.md", f"`{action}`")
    for why in ("rewritten", "nothing_left", "placement", "ddl_policy", "ddl_order", "setval"):
        assert f"`{why}`" in guide.split("`why` says what happened")[1]
    assert DdlPolicy({}).action("unknown_99", 1) == DdlPolicy({}).action("flashback_cluster", 1)
    assert f"newest {LISTED}" in guide
