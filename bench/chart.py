"""A bar chart as SVG: each figure as a share of its limit, its aim as a tick."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from bench.figure import Figure

ROW, LEFT, WIDTH, RIGHT = 26, 330, 420, 150
BAR, TRACK, TICK, TEXT = "#2a78b8", "#e4e9ee", "#c2410c", "#1f2933"


def aim_ratio(figure: Figure) -> float | None:
    """The aim as a share of the limit."""
    if figure.aim_of_limit is not None:
        return figure.aim_of_limit
    if figure.aim is None or figure.limit is None:
        return None
    return figure.aim / figure.limit.value


def svg(figures: Sequence[Figure]) -> str:
    """Figures that have a limit; bars longer than the widest are cut at the edge."""
    shown = [f for f in figures if f.ratio is not None and not f.lower_is_better]
    widest = max([1.0, *(f.ratio or 0 for f in shown), *(aim_ratio(f) or 0 for f in shown)])
    scale = WIDTH / min(widest, 4.0)
    height = ROW * (len(shown) + 1) + 16
    size = f'width="{LEFT + WIDTH + RIGHT}" height="{height}"'
    font = f'font-family="sans-serif" font-size="12" fill="{TEXT}"'
    title = "share of the limit measured in the same run (tick: the aim)"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {font}>',
        f'<text x="{LEFT}" y="16">{title}</text>',
    ]
    for row, figure in enumerate(shown, 1):
        parts += _bar(figure, ROW * row, scale)
    return "\n".join([*parts, "</svg>", ""])


def _bar(figure: Figure, top: int, scale: float) -> list[str]:
    assert figure.ratio is not None
    assert figure.limit is not None
    length = min(WIDTH, figure.ratio * scale)
    middle = top + 16
    label = escape(f"{figure.section}: {figure.name}")
    value = escape(f"{figure.ratio:.2f} × {figure.limit.name}")
    parts = [
        f'<text x="{LEFT - 8}" y="{middle}" text-anchor="end">{label}</text>',
        f'<rect x="{LEFT}" y="{top + 4}" width="{WIDTH}" height="16" fill="{TRACK}"/>',
        f'<rect x="{LEFT}" y="{top + 4}" width="{length:.1f}" height="16" fill="{BAR}"/>',
        f'<text x="{LEFT + WIDTH + 6}" y="{middle}" font-size="10">{value}</text>',
    ]
    aim = aim_ratio(figure)
    if aim is not None and aim * scale <= WIDTH:
        at = LEFT + aim * scale
        parts.append(
            f'<line x1="{at:.1f}" y1="{top + 1}" x2="{at:.1f}" y2="{top + 23}" '
            f'stroke="{TICK}" stroke-width="2"/>'
        )
    return parts
