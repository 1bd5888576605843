"""Every link of a page leads to a file that is there, and to a heading of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.unit.test_tidy import ROOT, tracked

LINK = re.compile(r"(?<!\!)\[[^\]\n]*\]\(([^)\s]+)\)|!\[[^\]\n]*\]\(([^)\s]+)\)")
PAGES = [path for path in tracked("*.md") if path.name != "CHANGELOG.md"]


def prose(path: Path) -> str:
    """Without blocks and spans of code."""
    text = re.sub(r"^ *```.*?^ *```", "", path.read_text(), flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`\n]*`", lambda span: span[0].replace("](", "] ("), text)


@cache
def anchors(path: Path) -> frozenset[str]:
    """Of the page's headings, as they are made from their text."""
    found: dict[str, int] = {}
    for heading in re.findall(r"^#+ +(.+?) *$", prose(path), re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        anchor = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        found[anchor] = found.get(anchor, -1) + 1
    return frozenset(f"{a}-{n}" if n else a for a, last in found.items() for n in range(last + 1))


def links(path: Path) -> Iterator[str]:
    for text, image in LINK.findall(prose(path)):
        target = text or image
        if not re.match(r"[a-z]+:", target):
            yield target


def broken(path: Path) -> list[str]:
    found = []
    for target in links(path):
        name, _, anchor = target.partition("#")
        there = (path.parent / unquote(name)).resolve() if name else path
        if not there.exists():
            found.append(f"{target}: not there")
        elif anchor and there.suffix == ".md" and anchor not in anchors(there):
            found.append(f"{target}: no such heading")
    return found


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    assert broken(path) == []


def test_every_page_of_docs_is_in_the_index() -> None:
    index = ROOT / "docs" / "README.md"
    listed = {(index.parent / target.partition("#")[0]).resolve() for target in links(index)}
    pages = {path for path in PAGES if ROOT / "docs" in path.parents and "adr" not in path.parts}
    assert pages - listed - {index} == set()
