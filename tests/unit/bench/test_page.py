"""docs/figures.md: nothing stands there without its limit, and nothing that nobody can repeat."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest
from PIL import Image

from bench import page, result
from bench.about import ROOT, About
from bench.course import STEPS
from bench.figure import Figure, Growth, Limit, Range, Spread
from bench.growth import MEMORY, THROUGHPUT
from bench.page import Incomplete
from bench.report import number
from bench.result import Result, Section
from bench.sections import CHAPTERS

ABOUT = About(
    date="2026-11-23",
    commit="abc1234",
    cores=2,
    processor="A processor",
    memory=8 << 30,
    disk="ext4 on /dev/sda",
    kernel="Linux 6.1",
    load=0.05,
    others=0.01,
    compiled=True,
    versions={"Python": "3.11.7", "nats-server": "2.15.1"},
)
ECHO = Limit("echo", 4000.0, "calls/s", Spread(9, 0.5, 1.0, 2.0), Range(3, 3900, 4000, 4100))


def figure(section: str, name: str, value: float, **more: object) -> Figure:
    made = Figure(section, name, value, "binlogs/s", ECHO, runs=Range(3, 0.9 * value, value, value))
    ratio = value / ECHO.value
    made = msgspec.structs.replace(made, ratios=Range(3, 0.9 * ratio, ratio, 1.1 * ratio))
    return msgspec.structs.replace(made, **more)


def point(of: str, by: str, x: float, value: float) -> Figure:
    return figure("growth", f"{of} {by} {x}", value, growth=[Growth(of, by, x)])


FIGURES = [
    figure("pump", "NATS | gRPC", 2000.0, aim_of_limit=0.75, note="a remark"),
    figure("pump", "PumpClient", 300_000.0, aim=60_000.0, original="24.3k"),
    figure("recovery", "Drainer", 2.5, unit="s", lower_is_better=True, ratios=None),
    *(point(THROUGHPUT, "Pumps", x, 1000.0 * x) for x in (1, 2, 5)),
    *(point(THROUGHPUT, "tables", x, 90_000.0 / x) for x in (1, 10, 1000)),
    *(point(MEMORY, "MiB of a transaction", x, 60.0) for x in (16, 256)),
]
SECTIONS = [Section(name, 0.5, 60.0) for name in ("limits", "pump", "recovery", "growth")]
FOUND = Result(ABOUT, 3, SECTIONS, [ECHO], FIGURES)


def rows(text: str, heading: str) -> list[str]:
    """Of the table below a heading, without its head."""
    of = text.partition(f"### {heading}\n")[2].partition("\n## ")[0]
    return [line for line in of.splitlines() if line.startswith("| ")][1:]


def test_every_figure_stands_there_with_its_limit_and_its_spread() -> None:
    text = page.page(FOUND)
    for one in FIGURES:
        name = one.name.replace("|", "\\|")
        (row,) = [line for line in text.splitlines() if line.startswith(f"| {name} |")]
        assert "| echo: 4000 |" in row
        assert f"| {number(one.ratio or 0)} × |" in row
        assert "–" in row
    first, second = rows(text, "Writing to a Pump")
    assert "≥ 0.75 × limit: **missed**" in first
    assert "| ≥ 60.0k |" in second


def test_every_section_has_the_command_that_repeats_it() -> None:
    text = page.page(FOUND)
    for section in SECTIONS:
        assert f"`python -m bench {section.name} --share 0.5 --runs 3`" in text
    assert text.count("### ") == len(SECTIONS)
    assert "make bench-report" in text


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (figure("pump", "bare", 1.0, limit=None), "bare has no limit"),
        (figure("pump", "zero", 1.0, limit=Limit("nothing", 0.0, "s")), "zero has no limit"),
        (figure("drain", "lone", 1.0), "nothing says how lone was measured"),
    ],
)
def test_a_figure_that_says_nothing_is_refused(wrong: Figure, said: str) -> None:
    with pytest.raises(Incomplete, match=said):
        page.page(msgspec.structs.replace(FOUND, figures=[*FIGURES, wrong]))


def test_a_figure_of_fewer_runs_says_so() -> None:
    once = figure("pump", "once", 5.0, runs=Range(1, 5.0, 5.0, 5.0))
    text = page.page(msgspec.structs.replace(FOUND, figures=[once]))
    assert "| once | 5 binlogs/s | (1 of 3 runs) |" in text


def test_what_was_measured_on_a_busy_machine_says_so() -> None:
    assert "Not an idle machine" not in page.page(FOUND)
    busy = msgspec.structs.replace(FOUND, about=msgspec.structs.replace(ABOUT, others=1.5))
    assert "> **Not an idle machine.** 1.5 of 2 cores" in page.page(busy)


def test_the_page_says_on_what_it_was_measured() -> None:
    text = page.page(FOUND)
    for part in ("2 cores, A processor, 8 GiB", "ext4 on /dev/sda; Linux 6.1", "commit abc1234"):
        assert part in text
    for part in ("Python 3.11.7, nats-server 2.15.1", "2026-11-23", "3 runs, 12 min"):
        assert part in text


def test_pictures_are_there_for_both_themes(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "figures-gone-dark.png").touch()
    (tmp_path / "images" / "console-dark.png").touch()
    written = page.write(FOUND, tmp_path)
    text = (tmp_path / "figures.md").read_text()
    named = set(re.findall(r'(?:src|srcset)="([^"]+)"', text))
    assert {str(path.relative_to(tmp_path)) for path in written} == {"figures.md", *named}
    assert len(named) == 2 * len(("pump", "recovery", "growth-drainer", "growth-memory"))
    for name in named:
        with Image.open(tmp_path / name) as image:
            assert image.width > 1000
            assert image.height > 150
            # Light pages begin with white, dark ones don't.
            assert (image.convert("RGB").getpixel((0, 0)) == (255, 255, 255)) == ("light" in name)
    assert not (tmp_path / "images" / "figures-gone-dark.png").exists()
    assert (tmp_path / "images" / "console-dark.png").exists()


def test_the_same_result_gives_the_same_bytes(tmp_path: Path) -> None:
    one = msgspec.structs.replace(FOUND, figures=FIGURES[:1])
    first, again = (page.write(one, tmp_path / place) for place in ("first", "again"))
    assert len(first) == 3
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in again]


def test_a_result_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "out" / "figures.json"
    result.write(path, FOUND)
    assert page.page(result.read(path)) == page.page(FOUND)
    body = json.loads(path.read_text())
    assert (body["figures"][0]["ratio"], body["figures"][0]["reached"]) == (0.5, False)


def test_the_page_has_a_place_for_all_that_is_measured_for_it() -> None:
    placed = {about.name for chapter in CHAPTERS for about in chapter.sections}
    assert placed == {"limits", *(step.name for step in STEPS if step.report)}


def test_the_page_is_what_was_kept() -> None:
    kept = ROOT / "bench" / "figures.json"
    assert (ROOT / "docs" / page.PAGE).read_text() == page.page(result.read(kept))
