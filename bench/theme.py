"""How the page's pictures look, on a light page and on a dark one."""

from __future__ import annotations

from typing import Any, NamedTuple


class Theme(NamedTuple):
    """Colours. The same blue for what is measured and grey for its limit in all pictures."""

    name: str
    page: str
    text: str
    quiet: str
    line: str
    measured: str
    limit: str
    aim: str


LIGHT = Theme("light", "#ffffff", "#1f2328", "#59636e", "#d8dee4", "#0969da", "#57606a", "#bc4c00")
DARK = Theme("dark", "#0d1117", "#e6edf3", "#9198a1", "#30363d", "#4493f8", "#b1bac4", "#f0883e")
THEMES = (LIGHT, DARK)


def settings(theme: Theme) -> dict[Any, Any]:
    """For matplotlib, by its names."""
    return {
        "figure.facecolor": theme.page,
        "axes.facecolor": theme.page,
        "savefig.facecolor": theme.page,
        "text.color": theme.text,
        "axes.labelcolor": theme.quiet,
        "axes.edgecolor": theme.line,
        "axes.titlecolor": theme.text,
        "xtick.color": theme.line,
        "ytick.color": theme.line,
        "xtick.labelcolor": theme.quiet,
        "ytick.labelcolor": theme.text,
        "grid.color": theme.line,
        "font.family": "DejaVu Sans",
        "font.size": 9,
        "axes.titlesize": 9.5,
        "axes.titleweight": "bold",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.axisbelow": True,
        "legend.frameon": False,
        "legend.labelcolor": theme.quiet,
    }
