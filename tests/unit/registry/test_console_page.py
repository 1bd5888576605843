"""The page's files: nothing from elsewhere, all packaged, texts with contrast in both themes."""

from __future__ import annotations

import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tidelog_registry.console.files import page_files

FILES = {name: file.body.decode() for name, file in page_files().items()}
ROOT = Path(__file__).parents[3]
CONTRAST = 4.5
"""WCAG 2, AA, of text."""
GRAPHICS = 3.0
"""And of what has to be told apart from its background."""
TEXTS = [
    ("text", ("page", "card", "raised", "faint")),
    ("quiet", ("page", "card", "raised", "faint")),
    ("accent", ("card",)),
    ("good", ("card", "raised")),
    ("warn", ("card", "warn-tint")),
    ("bad", ("page", "card", "bad-tint")),
    ("text", ("warn-tint", "bad-tint")),
]


def themes() -> dict[str, dict[str, str]]:
    light, dark = re.findall(r":root([^{]*)\{([^}]*)\}", FILES["tokens.css"])
    assert "dark" in dark[0]
    assert not light[0].strip()
    colours = [dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", one[1])) for one in (light, dark)]
    return {"light": colours[0], "dark": colours[0] | colours[1]}


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    r, g, b = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(("text", "grounds"), TEXTS)
def test_texts_can_be_read(theme: str, text: str, grounds: tuple[str, ...]) -> None:
    colours = themes()[theme]
    weak = {g: round(contrast(colours[text], colours[g]), 2) for g in grounds}
    assert min(weak.values()) >= CONTRAST, weak


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_marks_stand_out(theme: str) -> None:
    colours = themes()[theme]
    for mark in ("good", "warn", "bad", "accent"):
        assert contrast(colours[mark], colours["card"]) >= GRAPHICS


def test_the_contrast_is_that_of_the_standard() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


def test_both_themes_have_every_colour() -> None:
    used = set(re.findall(r"var\(--([\w-]+)\)", FILES["style.css"]))
    light, dark = themes().values()
    assert used == set(light) == set(dark)
    changed = {name for name in light if light[name] != dark[name]}
    assert changed == set(light)


def test_colours_are_tokens() -> None:
    for name, text in FILES.items():
        if name not in ("tokens.css", "icon.svg"):
            assert not re.findall(r"#[0-9a-fA-F]{3,8}\b(?!-)", re.sub(r'href="#\w+"', "", text)), (
                name
            )


def test_nothing_comes_from_elsewhere_and_nothing_is_missing() -> None:
    for name, text in FILES.items():
        plain = text.replace("http://www.w3.org/2000/svg", "")
        assert "//" not in re.sub(r"(^|\s)// .*", "", plain), name
    page = FILES["index.html"]
    named = set(re.findall(r'(?:src|href)="([^"#]+)"', page))
    named |= {one for text in FILES.values() for one in re.findall(r'from "\./([^"]+)"', text)}
    assert named | {"index.html"} == set(FILES)


def test_what_the_policy_forbids_is_not_in_the_page() -> None:
    """Inline scripts and styles, and what makes markup of texts."""
    page = FILES["index.html"]
    assert not re.search(r"<style|style=|\son\w+=|<script>|<script type=\"module\">", page)
    for name, text in FILES.items():
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", text
        ), name


def test_each_file_is_in_the_wheel_and_short() -> None:
    packaged = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    globs = packaged["package-data"]["tidelog_registry"]
    for name, text in FILES.items():
        assert any(fnmatch(f"console/page/{name}", glob) for glob in globs)
        assert len(text.splitlines()) <= 300, name
