"""The page by keyboard, by a screen reader's names, in both themes, on a phone."""

from __future__ import annotations

import pytest
from selenium.webdriver.common.keys import Keys

from tests.console.browser import CONTRASTS, Page

NAMED = {
    "link",
    "button",
    "radio",
    "radiogroup",
    "group",
    "img",
    "image",
    "heading",
    "table",
    "region",
    "progressbar",
}
FOCUS = "const e = document.activeElement; return e.id || e.className || e.value"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_text_can_be_read_in_both_themes(page: Page, theme: str) -> None:
    page.prefers(prefers_color_scheme=theme)
    page.until(lambda: page.js("return document.documentElement.dataset.theme") == theme, theme)
    page.until(lambda: len(page.texts("#tables tbody tr")) > 3, "tables")
    seen, weak = page.js(CONTRASTS)
    assert seen > 50
    assert weak == []


def test_the_theme_is_chosen_by_hand_and_kept(page: Page) -> None:
    page.js("document.querySelector('input[value=dark]').click()")
    assert page.js("return document.documentElement.dataset.theme") == "dark"
    page.driver.refresh()
    page.until_live()
    assert page.js("return document.documentElement.dataset.theme") == "dark"
    assert page.js("return document.querySelector('input[value=dark]').checked")
    page.js("document.querySelector('input[value=auto]').click()")
    assert page.js("return document.documentElement.dataset.theme") == "light"


def test_everything_has_a_name_and_a_place(page: Page) -> None:
    page.until(lambda: len(page.texts("#nodes tbody tr")) >= 4, "nodes")
    tree = page.cdp("Accessibility.getFullAXTree", {})["nodes"]
    here = [node for node in tree if not node["ignored"]]
    roles = [node["role"]["value"] for node in here]
    for landmark in ("banner", "main", "contentinfo"):
        assert roles.count(landmark) == 1, landmark
    nameless = [
        node["role"]["value"]
        for node in here
        if node["role"]["value"] in NAMED and not node.get("name", {}).get("value", "").strip()
    ]
    assert nameless == []
    assert {"heading", "radio", "table", "region"} <= set(roles)
    assert {"img", "image"} & set(roles)
    levels = page.js("return [...document.querySelectorAll('h1,h2,h3')].map((h) => h.tagName)")
    assert levels[0] == "H1"
    assert levels.count("H1") == 1
    assert page.js("return document.documentElement.lang") == "en"


def test_it_goes_by_keyboard(page: Page) -> None:
    page.js("document.activeElement.blur()")
    page.press(Keys.TAB)
    assert page.js(FOCUS) == "skip"
    page.press(Keys.ENTER)
    page.until(lambda: page.js(FOCUS) == "main", "the skip link to lead to the content")
    page.until(lambda: "not known" not in page.text("#lags .value"), "a lag")
    page.press(Keys.TAB)
    assert page.js(FOCUS) == "chart"
    ring = page.js("return getComputedStyle(document.activeElement).outlineStyle")
    assert ring == "solid"
    about = page.text("#lags .chart .about")
    page.press(Keys.ARROW_LEFT)
    assert page.text("#lags .chart .about").startswith("at ")
    assert page.js("return document.querySelectorAll('.cursor').length") == 5, "in all charts"
    assert page.js("return document.activeElement.querySelector('.unseen').textContent")
    page.press(Keys.ESCAPE)
    assert page.text("#lags .chart .about") == about


@pytest.mark.parametrize("width", [360, 390, 768, 1280])
def test_nothing_sticks_out_or_is_cut_at_any_width(page: Page, width: int) -> None:
    page.size(width)
    page.until(lambda: page.drawn("pump-1")[1] == "online", "the topology")
    wide = page.js(
        "return [...document.querySelectorAll('body *')].filter((e) =>"
        " e.getBoundingClientRect().right > innerWidth + 1 && !e.closest('.scroll, .unseen, svg'))"
        ".map((e) => e.outerHTML.slice(0, 80))"
    )
    assert wide == []
    assert page.js("return document.documentElement.scrollWidth") <= width
    boxes = page.js(
        "const at = document.querySelector('#topology svg').getBoundingClientRect();"
        "return [...document.querySelectorAll('#topology rect, #topology text')].map((e) =>"
        " e.getBoundingClientRect()).filter((b) => b.right > at.right + 1 || b.left < at.left - 1)"
        ".length"
    )
    assert boxes == 0
    texts = page.js(
        "return [...document.querySelectorAll('#topology text')].map((e) => e.textContent)"
    )
    assert "changes.main" in texts
    assert [text for text in texts if "…" in text] == []


def test_nothing_moves_for_who_wants_no_motion(page: Page) -> None:
    moving = "return [...document.querySelectorAll('*')].filter((e) => getComputedStyle(e)"
    transitions = page.js(f"{moving}.transitionDuration !== '0s').length")
    assert transitions == 0
    page.prefers(prefers_reduced_motion="no-preference")
    assert page.js(f"{moving}.transitionDuration !== '0s').length") == 1
    assert page.js("return document.getAnimations().length") == 0
