"""The page's pictures: each section as bars, and curves of what grows; the limit always beside.

What is faster when it is more stands as a share of its limit, as figures of one machine move up to
twofold between runs; what is better when it is less stands in its unit, its limit as a tick.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from bench.figure import Figure, Range
from bench.report import number
from bench.theme import Theme, settings

WIDTH = 8.6
"""Inches; a page shows about 100 pixels of each."""
ROW, FRAME = 0.29, 0.95
DPI = 150
WIDE = 25
"""An axis whose values are further apart than this is logarithmic."""
FAR = 6
"""The same of what something grows by."""
STEPS = (1, 2, 5)


def is_less_better(figures: Sequence[Figure]) -> bool:
    return all(figure.lower_is_better for figure in figures)


def aim_ratio(figure: Figure) -> float | None:
    """The aim as a share of the limit."""
    if figure.aim_of_limit is not None:
        return figure.aim_of_limit
    if figure.aim is None or figure.limit is None:
        return None
    return figure.aim / figure.limit.value


def bars(path: Path, figures: Sequence[Figure], theme: Theme) -> None:
    """Those of one section, to a PNG. All must have a limit."""
    less = is_less_better(figures)
    shown = [figure for figure in figures if figure.lower_is_better == less]
    with _canvas(path, len(shown) * ROW + FRAME, theme) as canvas:
        axes = canvas.add_subplot()
        spans = [_span(figure, less) for figure in shown]
        limits = [figure.limit.value if less and figure.limit else 1.0 for figure in shown]
        aims = [figure.aim if less else aim_ratio(figure) for figure in shown]
        known = [value for value in (*limits, *aims, *(s.median for s in spans)) if value]
        log = _is_wide([*(s.median for s in spans), *([] if less else limits)])
        low = min(known) / 2 if log else 0.0
        for row, (figure, span) in enumerate(zip(shown, spans, strict=True)):
            # Where there is no zero a bar can only say how far it is from something.
            _bar(axes, row, span, limits[row] if log else 0.0, theme)
            _number(axes, row, figure, theme, less=less)
            _tick(axes, row, limits[row], theme.limit)
            _tick(axes, row, aims[row], theme.aim)
        _measure(axes, low, max(*known, *(s.high for s in spans)), log=log)
        axes.set_yticks(range(len(shown)), [figure.name for figure in shown])
        axes.tick_params(axis="y", length=0)
        axes.set_ylim(len(shown) - 0.4, -0.6)
        axes.set_xlabel(_axis(shown[0].unit if less else "", log=log))
        axes.spines["left"].set_visible(False)
        _legend(canvas, theme, runs=spans[0].n, aims=any(aims))


def _span(figure: Figure, less: bool) -> Range:
    known = figure.runs if less else figure.ratios
    value = figure.value if less else figure.ratio or 0.0
    return known or Range(1, value, value, value)


def _axis(unit: str, *, log: bool) -> str:
    text = unit or "share of the limit that was measured in the same run"
    return f"{text} (logarithmic)" if log else text


def _is_wide(values: Sequence[float]) -> bool:
    known = [value for value in values if value > 0]
    return max(known) / min(known) > WIDE


def _bar(axes: Any, row: int, span: Range, begin: float, theme: Theme) -> None:
    axes.barh(row, span.median - begin, left=begin, height=0.56, color=theme.measured, alpha=0.85)
    if begin:
        axes.plot([span.median], [row], "D", color=theme.measured, markersize=5)
    if span.n > 1:
        axes.plot([span.low, span.high], [row, row], color=theme.text, linewidth=1.1)
        axes.plot([span.low, span.high], [row, row], "|", color=theme.text, markersize=5)


def _number(axes: Any, row: int, figure: Figure, theme: Theme, *, less: bool) -> None:
    """At the right edge, in a column: behind the bars it would meet limits and aims."""
    text = f"{number(figure.value)} {figure.unit}"
    axes.annotate(
        text if less else f"{text} · {number(figure.ratio or 0)} ×",
        (1.0, row),
        xycoords=("axes fraction", "data"),
        xytext=(6, 0),
        textcoords="offset points",
        va="center",
        fontsize=8,
        color=theme.quiet,
    )


def _tick(axes: Any, row: int, at: float | None, colour: str) -> None:
    if at is not None:
        axes.plot([at, at], [row - 0.4, row + 0.4], color=colour, linewidth=2.2)


def _measure(axes: Any, low: float, high: float, *, log: bool, way: str = "x") -> None:
    """The axis of the values."""
    axis = axes.xaxis if way == "x" else axes.yaxis
    if log:
        axes.set(**{f"{way}scale": "log"})
        axis.set_major_locator(FixedLocator(list(_decades(low, high))))
        axis.set_minor_locator(NullLocator())
    axes.set(**{f"{way}lim": (low, high * (1.3 if log else 1.06))})
    axis.set_major_formatter(FuncFormatter(lambda value, _: _short(value)))
    axes.grid(axis=way, linewidth=0.6)


def _decades(low: float, high: float) -> Iterator[float]:
    """1, 2, 5, 10 … in between; only powers of ten when that would be many."""
    decade = 1e-9
    while decade <= high * 1.3:
        for step in STEPS if high / low < 500 else STEPS[:1]:
            if low <= decade * step <= high * 1.3:
                yield decade * step
        decade *= 10


def _short(value: float) -> str:
    """As few characters as say it."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def curves(path: Path, points: Sequence[Figure], of: str, theme: Theme) -> None:
    """What grows, one panel for each thing that it grows by."""
    panels: dict[str, list[tuple[float, Figure]]] = {}
    for figure in points:
        for growth in figure.growth:
            if growth.of == of:
                panels.setdefault(growth.by, []).append((growth.x, figure))
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    with _canvas(path, rows * 2.6 + 0.6, theme) as canvas:
        for at, (by, found) in enumerate(panels.items(), 1):
            axes = canvas.add_subplot(rows, columns, at)
            _curve(axes, by, sorted(found, key=lambda point: point[0]), theme)
        runs = points[0].runs
        _legend(canvas, theme, runs=runs.n if runs else 1, aims=False, band=True)


def _curve(axes: Any, by: str, found: Sequence[tuple[float, Figure]], theme: Theme) -> None:
    xs = [x for x, _ in found]
    figures = [figure for _, figure in found]
    ys = [figure.value for figure in figures]
    spans = [
        figure.runs or Range(1, figure.value, figure.value, figure.value) for figure in figures
    ]
    limits = [figure.limit.value for figure in figures if figure.limit]
    low, high = [span.low for span in spans], [span.high for span in spans]
    axes.fill_between(xs, low, high, color=theme.measured, alpha=0.22, linewidth=0)
    axes.plot(xs, ys, "o-", color=theme.measured, linewidth=1.8, markersize=4.5)
    axes.plot(xs, limits, "s--", color=theme.limit, linewidth=1.3, markersize=3.5)
    known = [*ys, *limits]
    log = _is_wide(ys)
    _measure(axes, min(known) / 1.5 if log else 0.0, max(*known, *high), log=log, way="y")
    if max(xs) / min(xs) > FAR:
        axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator(xs))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.tick_params(labelsize=8, labelcolor=theme.quiet)
    axes.set_title(f"{figures[0].unit} by {by}", loc="left")


@contextmanager
def _canvas(path: Path, height: float, theme: Theme) -> Iterator[Canvas]:
    """Saved when left; the same figures give the same bytes."""
    with mpl.rc_context(settings(theme)):
        canvas = Canvas(figsize=(WIDTH, height), dpi=DPI, layout="constrained")
        yield canvas
        path.parent.mkdir(parents=True, exist_ok=True)
        canvas.savefig(path, metadata={"Software": None})


def _legend(canvas: Canvas, theme: Theme, *, runs: int, aims: bool, band: bool = False) -> None:
    between = f", of {runs} runs the middle; {'band' if band else 'line'}: least to most"
    shown = [
        (Line2D([], [], color=theme.measured, linewidth=5), "measured" + between * (runs > 1)),
        (Line2D([], [], color=theme.limit, linewidth=2.2), "limit"),
    ]
    if aims:
        shown.append((Line2D([], [], color=theme.aim, linewidth=2.2), "aim"))
    handles, names = zip(*shown, strict=True)
    canvas.legend(handles, names, loc="outside upper left", ncols=len(shown), fontsize=8)
