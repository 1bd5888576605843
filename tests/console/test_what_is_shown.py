"""What an operator sees of a topology under load: nodes, states, lags, rates, and of a registry
that was away."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selenium.webdriver.common.keys import Keys

from tests.console.browser import Page
from tests.topology import Running

NOT_KNOWN = "not known"
LAGS = """
const box = (name) => document.querySelector(`#topology g[data-node='${name}'] title`)?.textContent;
const line = (row) => row.querySelector("td[data-label='Lag']").innerText.trim();
return {
  charts: [...document.querySelectorAll("#lags .value")].map((e) => e.innerText),
  boxes: [box("drainer"), box("applier")],
  lines: Object.fromEntries([...document.querySelectorAll("#nodes tr[data-node]")]
    .map((row) => [row.dataset.node, line(row)])),
};
"""
"""All that one moment shows."""


@contextmanager
def beside(
    running: Running, home: Path, kind: str, name: str, *more: str
) -> Iterator[subprocess.Popen[bytes]]:
    """One more node, which nobody starts again."""
    argv = [sys.executable, "-m", f"tidelog_{kind}", "--nats-url", running.nats, "--node-id", name]
    with (home / f"{name}.log").open("w") as log:
        node = subprocess.Popen(
            [*argv, "--data-dir", str(home / name), *more], stdout=log, stderr=subprocess.STDOUT
        )
    try:
        yield node
    finally:
        node.terminate()
        node.wait(timeout=40)


def test_nodes_lags_rates_tables_and_ddls(page: Page) -> None:
    for name in ("pump-1", "pump-2", "drainer", "applier"):
        page.until(lambda name=name: "online" in page.node(name), name)
        assert page.drawn(name) == ("node good", "online")
    assert page.texts("#lags .title") == ["Resolved", "Published", "Applied"]
    page.until(lambda: NOT_KNOWN not in page.texts("#lags .value"), "three lags")
    before = page.texts("#lags .value")
    page.until(
        lambda: all(a != b for a, b in zip(before, page.texts("#lags .value"), strict=True)),
        "lags that move",
    )
    page.until(lambda: float(page.texts("#rates .value")[1]) > 5, "rows a second")
    page.until(lambda: len(page.texts("#tables tbody tr")) > 5, "tables")
    page.until(lambda: len(page.texts("#ddls li")) > 0, "DDLs")
    assert "published" in page.text("#ddls li")
    lines = page.js("return [...document.querySelectorAll('#lags .line')].length")
    assert lines >= 3
    label = page.js("return document.querySelector('#topology svg').getAttribute('aria-label')")
    assert "Pumps: pump-1 online, pump-2 online. Drainer: drainer online." in label


def test_a_lag_is_one_number_in_box_table_and_chart(page: Page) -> None:
    page.until(lambda: NOT_KNOWN not in page.texts("#lags .value"), "three lags")
    moments: list[dict[str, Any]] = []

    def another() -> bool:
        shown = page.js(LAGS)
        if not moments or moments[-1] != shown:
            moments.append(shown)
        return len(moments) == 5

    page.until(another, "five moments")
    for shown in moments:
        resolved, published, applied = shown["charts"]
        lines = shown["lines"]
        assert (lines["drainer"], lines["applier"]) == (published, applied), shown
        assert resolved in (lines["pump-1"], lines["pump-2"]), shown
        assert shown["boxes"] == [
            f"drainer, online, {published} behind",
            f"applier, online, {applied} behind",
        ]


def test_an_address_that_nobody_encoded_shows_the_page(page: Page) -> None:
    address = page.driver.current_url
    page.driver.get("about:blank")
    page.open(f"{address}#%")
    page.until(lambda: "online" in page.node("pump-1"), "the nodes")


def test_a_paused_node_is_shown_as_paused_with_what_ends_it(page: Page, running: Running) -> None:
    assert running.command("pause", "pump-2").returncode == 0
    try:
        page.until(lambda: "paused" in page.node("pump-2"), "pump-2 to be paused")
        assert page.drawn("pump-2") == ("node warn", "paused")
        page.until(lambda: "tidelog resume pump-2" in page.text(".attention"), "what to do")
        assert page.text("#attention-title") == "1 thing needs attention"
        page.until(lambda: "pump-2 is paused" in page.text("#told"), "it to be read out")
    finally:
        assert running.command("resume", "pump-2").returncode == 0
    page.until(lambda: page.text("#attention-title") == "Everything runs", "all to be well")
    assert page.drawn("pump-2")[1] == "online"


def test_the_page_says_that_the_registry_is_away_and_goes_on_by_itself(
    browser: Page, running: Running
) -> None:
    browser.open(running.ready["console"])
    browser.until(lambda: len(browser.texts("#lags .line") or []) >= 0, "the page")
    browser.js(
        "document.marked = true; document.lost = ''; new MutationObserver(() => {"
        "const now = document.querySelector('#link-text').textContent;"
        "if (now !== 'Live') document.lost = now; }).observe("
        "document.querySelector('#link'), {subtree: true, childList: true, characterData: true})"
    )
    path = "return document.querySelector('#lags .line').getAttribute('d').length"
    browser.until(lambda: browser.js(path) > 10, "a line")
    before = browser.js(path)
    running.kill("registry")
    browser.until(
        lambda: "Connection lost" in str(browser.js("return document.lost")), "the loss to be said"
    )
    browser.until_live()
    browser.until(lambda: "online" in browser.node("pump-1"), "the nodes")
    assert browser.js("return document.marked"), "without loading the page again"
    assert browser.js(path) >= before - 40, "what was before is still there"
    assert not browser.complaints(restarted=True)


def test_a_standby_is_shown_as_standby_and_another_feed_can_be_chosen(
    page: Page, running: Running, home: Path
) -> None:
    assert running.command("feed", "create", "audit").returncode == 0
    with (
        beside(running, home, "drainer", "drainer-2"),
        beside(running, home, "drainer", "audit-1", "--feed", "audit"),
    ):
        page.until(lambda: page.drawn("drainer-2") == ("node calm", "standby"), "the standby")
        page.until(lambda: page.texts("#feeds label") == ["audit", "main"], "both feeds")
        page.js("document.querySelector('#feeds input[value=main]').focus()")
        page.press(Keys.ARROW_LEFT)
        page.until(lambda: page.drawn("audit-1")[1] == "online", "the other feed's picture")
        assert page.drawn("drainer-2") == ("", "")
        assert page.js("return document.activeElement.value") == "audit"
        assert page.js("return location.hash") == "#audit"


def test_a_pump_that_joins_appears_and_one_that_is_killed_is_unreachable(
    page: Page, running: Running, home: Path
) -> None:
    """The last one: the merge waits for that Pump from then on."""
    with beside(running, home, "pump", "pump-3", "--grpc-addr", "127.0.0.1:0") as pump:
        page.until(lambda: page.drawn("pump-3") == ("node good", "online"), "pump-3 to appear")
        pump.kill()
        pump.wait()
        page.until(lambda: "unreachable" in page.node("pump-3"), "pump-3 to be unreachable")
        assert page.drawn("pump-3") == ("node bad", "unreachable")
        assert page.js("return document.querySelectorAll('#topology .edge.cut').length") == 1
        page.until(lambda: "offline pump-3 --accept-loss" in page.text(".attention"), "what to do")
