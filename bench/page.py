"""docs/figures.md and its pictures, from a result: `python -m bench.page --from FILE [--docs DIR]`.

Nothing is measured here, and the same result gives the same page.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from bench import chart, result
from bench.about import ROOT
from bench.figure import Figure, Limit, Range
from bench.report import number, times
from bench.result import Result, Section
from bench.sections import CHAPTERS, CURVES, About
from bench.theme import THEMES

PAGE, IMAGES, PREFIX = "figures.md", "images", "figures-"
GIB = 1 << 30
Cell = tuple[str, Callable[[Figure], str]]


class Incomplete(Exception):
    """A figure says nothing without its limit, nor one that nobody can repeat."""


def check(found: Result) -> None:
    """Raises Incomplete."""
    known = {section.name for section in found.sections}
    shown = {about.name for chapter in CHAPTERS for about in chapter.sections}
    for figure in found.figures:
        if figure.limit is None or not figure.limit.value:
            raise Incomplete(f"{figure.section}: {figure.name} has no limit")
        if figure.section not in known & shown:
            raise Incomplete(f"{figure.section}: nothing says how {figure.name} was measured")


def page(found: Result) -> str:
    """Raises Incomplete."""
    check(found)
    known = {section.name: section for section in found.sections}
    lines = [*_head(found)]
    for chapter in CHAPTERS:
        sections = [about for about in chapter.sections if about.name in known]
        if sections:
            lines += ["", f"## {chapter.title}"]
        for about in sections:
            lines += _section(about, known[about.name], found)
    return "\n".join([*lines, ""])


def _head(found: Result) -> Iterator[str]:
    about, minutes = found.about, found.runs * sum(s.seconds for s in found.sections) / 60
    middle = "the middle" if found.runs % 2 else "the lower middle"
    yield "# Figures"
    yield ""
    yield (
        "Written by `make bench-report`, which measures all of it anew: "
        f"{found.runs} run{'s' * (found.runs > 1)}, {minutes:.0f} min here. The command below "
        "each heading measures that part alone. What was measured is kept in "
        "[bench/figures.json](../bench/figures.json); `python -m bench.page --from "
        "bench/figures.json` writes the page from it without measuring."
    )
    if about.busy:
        yield ""
        yield (
            f"> **Not an idle machine.** {about.others:.1f} of {about.cores} cores were busy with "
            "something else when a run began. Shares of the limits say something, as both were "
            "slowed down; figures by themselves don't. Measure again before quoting any."
        )
    yield ""
    yield "| on what | |"
    yield "|---|---|"
    yield f"| machine | {about.cores} cores, {about.processor}, {about.memory / GIB:.0f} GiB |"
    yield f"| disk, kernel | {about.disk}; {about.kernel} |"
    yield f"| versions | {', '.join(f'{name} {text}' for name, text in about.versions.items())} |"
    codecs = "plain, and compiled where it says mypyc" if about.compiled else "not compiled"
    yield f"| codecs | {codecs} |"
    yield f"| when | {about.date}, commit {about.commit or 'unknown'} |"
    yield (
        f"| load | {about.load:.2f} in the minute before the start, {about.others:.2f} cores busy "
        "with something else just before a run, at most |"
    )
    yield ""
    yield (
        "Each figure stands beside a **limit** of the same run: what a building block does by "
        "itself on this machine, which moves up to twofold from day to day. `of the limit` is the"
        f" ratio of the two. Of several runs the one with {middle} figure is shown, with its own "
        "limit, and the least and the most of all behind it. `original`: TiDB Binlog, in Go, on "
        "the machine that the aims were set on."
    )


def _section(about: About, how: Section, found: Result) -> Iterator[str]:
    yield ""
    yield f"### {about.title}"
    yield ""
    yield about.text
    yield ""
    runs = f" --runs {found.runs}" if found.runs > 1 else ""
    yield f"`python -m bench {about.name} --share {how.share:g}{runs}`"
    figures = [figure for figure in found.figures if figure.section == about.name]
    for name, alt, _ in _pictures(about.name, figures):
        yield ""
        yield from _picture(name, alt)
    yield ""
    if figures:
        yield from _table(figures, found.runs)
    else:
        yield from _limits(found.limits, found.runs)


def _pictures(
    section: str, figures: Sequence[Figure]
) -> Iterator[tuple[str, str, Callable[..., None]]]:
    """Name, text instead, and who draws it: of one section."""
    if any(figure.growth for figure in figures):
        for end, of in CURVES.items():
            points = [f for f in figures if any(growth.of == of for growth in f.growth)]
            if points:
                yield (
                    f"{PREFIX}{section}-{end}",
                    f"How {of} grows",
                    lambda path, theme, points=points, of=of: chart.curves(path, points, of, theme),
                )
    elif figures:
        alt = f"The figures of {section} beside their limits"
        yield (
            f"{PREFIX}{section}",
            alt,
            lambda path, theme: chart.bars(path, figures, theme),
        )


def _picture(name: str, alt: str) -> Iterator[str]:
    yield "<picture>"
    yield (f'<source media="(prefers-color-scheme: dark)" srcset="{IMAGES}/{name}-dark.png">')
    yield f'<img alt="{alt}" src="{IMAGES}/{name}-light.png">'
    yield "</picture>"


def _limits(limits: Sequence[Limit], runs: int) -> Iterator[str]:
    yield "| limit | measured | least–most | p50 / p99 / max ms |"
    yield "|---|---|---|---|"
    for limit in limits:
        measured = f"{number(limit.value)} {limit.unit}"
        yield f"| {limit.name} | {measured} | {between(limit.runs, runs)} | {times(limit.spread)} |"


def between(runs: Range | None, wanted: int) -> str:
    """The least and the most; of fewer runs than wanted (a bench was broken off) it says so."""
    if runs is None or wanted == 1:
        return ""
    text = f"{number(runs.low)}–{number(runs.high)}" if runs.n > 1 else ""
    return text if runs.n == wanted else f"{text} ({runs.n} of {wanted} runs)".strip()


def _table(figures: Sequence[Figure], runs: int) -> Iterator[str]:
    """Columns that nobody has anything for are left out."""
    cells: tuple[Cell, ...] = (
        ("figure", lambda f: f.name),
        ("measured", lambda f: f"{number(f.value)} {f.unit}"),
        ("least–most", lambda f: between(f.runs, runs)),
        ("p50 / p99 / max ms", lambda f: times(f.spread)),
        ("limit", lambda f: f"{f.limit.name}: {number(f.limit.value)}" if f.limit else ""),
        ("of the limit", lambda f: f"{number(f.ratio or 0)} ×"),
        ("least–most", lambda f: between(f.ratios, runs)),
        ("aim", _aim),
        ("original", lambda f: f.original),
        ("remark", lambda f: f.note),
    )
    shown = [(name, cell) for name, cell in cells if any(cell(figure) for figure in figures)]
    yield "| " + " | ".join(name for name, _ in shown) + " |"
    yield "|" + "---|" * len(shown)
    for figure in figures:
        yield "| " + " | ".join(cell(figure).replace("|", "\\|") for _, cell in shown) + " |"


def _aim(figure: Figure) -> str:
    if figure.aim_of_limit is not None:
        text = f"≥ {figure.aim_of_limit:g} × limit"
    elif figure.aim is not None:
        text = f"{'<' if figure.lower_is_better else '≥'} {number(figure.aim)}"
    else:
        return ""
    return text if figure.reached else f"{text}: **missed**"


def write(found: Result, docs: Path) -> list[Path]:
    """The page, and its pictures in both themes; those of an earlier page that it has no more are
    removed. Raises Incomplete."""
    text = page(found)
    written: list[Path] = []
    for section in found.sections:
        figures = [figure for figure in found.figures if figure.section == section.name]
        for name, _, draw in _pictures(section.name, figures):
            for theme in THEMES:
                written.append(docs / IMAGES / f"{name}-{theme.name}.png")
                draw(written[-1], theme)
    for old in set((docs / IMAGES).glob(f"{PREFIX}*.png")) - set(written):
        old.unlink()
    (docs / PAGE).write_text(text, encoding="utf-8")
    return [docs / PAGE, *written]


def main(argv: Sequence[str]) -> None:
    parser = ArgumentParser("python -m bench.page", description=__doc__)
    parser.add_argument("--from", dest="source", type=Path, required=True, metavar="FILE")
    parser.add_argument("--docs", type=Path, default=ROOT / "docs")
    args = parser.parse_args(argv)
    for path in write(result.read(args.source), args.docs):
        sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
