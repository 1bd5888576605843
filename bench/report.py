"""The tables on the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from bench.figure import ENOUGH, Figure, Limit, Range, Spread, Usage

SMALL = 100


def number(value: float) -> str:
    """Three digits are all that such a figure has."""
    if value >= 1_000_000:
        return f"{value / 1e6:.3g}M"
    if value >= 10_000:
        return f"{value / 1000:.1f}k"
    if value >= SMALL:
        return f"{value:.0f}"
    return f"{value:.3g}"


def between(runs: Range | None) -> str:
    """The least and the most of several runs."""
    return f" ({number(runs.low)}–{number(runs.high)})" if runs and runs.n > 1 else ""


def times(of: Spread | None) -> str:
    if of is None:
        return ""
    p99 = f"{of.p99_ms:.2f}" if of.n >= ENOUGH else "–"
    return f"{of.p50_ms:.2f} / {p99} / {of.max_ms:.1f}"


def aim(figure: Figure) -> str:
    """As text, green when reached and red when missed."""
    if figure.aim_of_limit is not None:
        text = f"≥ {figure.aim_of_limit:.2f} × limit"
    elif figure.aim is not None:
        text = f"{'<' if figure.lower_is_better else '≥'} {number(figure.aim)}"
    else:
        return ""
    return f"[{'green' if figure.reached else 'red'}]{text}[/]"


def costs(usage: Usage, rate: float) -> str:
    """Microseconds of processor time per unit, by process, the dearest first; empty of none."""
    if not rate:
        return ""
    each = {name: share / rate * 1e6 for name, share in usage.cores.items()}
    dearest = sorted(each.items(), key=lambda item: -item[1])
    return ", ".join(f"{name} {number(us)}" for name, us in dearest if us >= 0.5)


def starved(usage: Usage) -> str:
    """Who waited for a core, the longest first."""
    longest = sorted(usage.starved.items(), key=lambda item: -item[1])
    return ", ".join(f"{name} {share:.0%}" for name, share in longest if share >= 0.05)


def limits_table(limits: Sequence[Limit]) -> Table:
    table = Table("limit of this machine", "figure", "unit", "p50 / p99 / max ms")
    for limit in limits:
        table.add_row(limit.name, number(limit.value), limit.unit, times(limit.spread))
    return table


def figures_table(figures: Sequence[Figure]) -> Table:
    table = Table("figure", "aim", "measured", "p50/p99/max ms", "limit", "ratio", "original")
    section = ""
    for figure in figures:
        if figure.section != section:
            section = figure.section
            table.add_section()
            table.add_row(f"[bold]{section}[/]")
        beside = f"{figure.limit.name}: {number(figure.limit.value)}" if figure.limit else ""
        ratio = f"{figure.ratio:.2f}" if figure.ratio is not None else ""
        table.add_row(
            figure.name,
            aim(figure),
            f"{number(figure.value)} {figure.unit}{between(figure.runs)}",
            times(figure.spread),
            beside,
            ratio,
            figure.original,
        )
    return table


def costs_table(figures: Sequence[Figure]) -> Table:
    """Processor time depends little on who else uses the machine, as rates do."""
    table = Table("figure", "busy cores", "processor time each, µs", "had no core", "remark")
    for figure in figures:
        usage = figure.usage
        if usage is None:
            continue
        table.add_row(
            f"{figure.section}: {figure.name}",
            number(sum(usage.cores.values())),
            costs(usage, figure.units_per_s or figure.value),
            starved(usage),
            figure.note,
        )
    return table


def verdict(figures: Sequence[Figure]) -> str:
    """The last line: of how many aims which were missed, and which bounds of memory."""
    aimed = [figure for figure in figures if figure.reached is not None]
    missed = [figure for figure in aimed if not figure.reached]
    told = [f"{'EXCEEDED' if one.exceeded else 'missed'}: {one.name}" for one in missed]
    head = f"bench: {len(figures)} figures, {len(aimed) - len(missed)} of {len(aimed)} aims reached"
    return "; ".join([head, *told])


def show(console: Console, limits: Sequence[Limit], figures: Sequence[Figure]) -> None:
    console.print(limits_table(limits))
    if figures:
        console.print(figures_table(figures))
        if (used := costs_table(figures)).row_count:
            console.print(used)
        console.print(verdict(figures), markup=False, highlight=False, soft_wrap=True)
