"""A real Chromium, without a window, on the console's page."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service

from tests.processes import until

FLAGS = ("--headless=new", "--disable-dev-shm-usage", "--hide-scrollbars", "--disable-gpu")
AWAY = ("ERR_CONNECTION_REFUSED", "ERR_CONNECTION_RESET", "ERR_EMPTY_RESPONSE", "ERR_INCOMPLETE")
"""What a browser says of a registry that is started again."""

CONTRASTS = """
const parse = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
const light = (rgb) => {
  const [r, g, b] = rgb.slice(0, 3).map((v) => v / 255)
    .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const ground = (element) => {
  for (let at = element; at; at = at.parentElement) {
    const colour = parse(getComputedStyle(at).backgroundColor);
    if (colour.length === 3 || colour[3] > 0.99) return colour;
  }
  return [255, 255, 255];
};
const weak = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
let seen = 0;
while (walker.nextNode()) {
  const element = walker.currentNode.parentElement;
  const box = element.getBoundingClientRect();
  if (!walker.currentNode.data.trim()) continue;
  if (element.closest("svg, .unseen, script, noscript, [hidden]")) continue;
  if (box.width < 2 || box.height < 2) continue;
  seen += 1;
  const pair = [light(parse(getComputedStyle(element).color)), light(ground(element))].sort();
  const ratio = (pair[1] + 0.05) / (pair[0] + 0.05);
  if (ratio < 4.5) weak.push([walker.currentNode.data.trim().slice(0, 40), ratio]);
}
return [seen, weak];
"""


class Page:
    def __init__(self, driver: Chrome) -> None:
        self.driver = driver

    def open(self, url: str) -> None:
        self.driver.get(url)
        self.until_live()

    def until_live(self) -> None:
        self.until(lambda: self.text("#link-text") == "Live", "the page to be live")

    def until(self, condition: Any, what: str, timeout_s: float = 30) -> None:
        until(condition, lambda: f"{what}\n{self.text('body')}", timeout_s)

    def js(self, script: str, *arguments: object) -> Any:
        return self.driver.execute_script(script, *arguments)

    def text(self, selector: str) -> str:
        """Of the first that fits; "" if there is none."""
        found = self.js("return document.querySelector(arguments[0])?.innerText ?? ''", selector)
        return str(found).strip()

    def texts(self, selector: str) -> list[str]:
        script = "return [...document.querySelectorAll(arguments[0])].map((e) => e.innerText)"
        return [str(text).strip() for text in self.js(script, selector)]

    def node(self, name: str) -> str:
        """Its line in the table."""
        return self.text(f'#nodes tr[data-node="{name}"]')

    def drawn(self, name: str) -> tuple[str, str]:
        """How it is drawn: its classes, and what is written in its box."""
        script = (
            "const g = document.querySelector(`#topology g[data-node='${arguments[0]}']`);"
            "return g ? [g.getAttribute('class'), g.querySelector('.word').textContent] : ['', '']"
        )
        kind, word = self.js(script, name)
        return str(kind), str(word)

    def size(self, width: int, height: int = 900) -> None:
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.cdp("Emulation.setDeviceMetricsOverride", metrics)

    def prefers(self, **features: str) -> None:
        told = [{"name": n.replace("_", "-"), "value": value} for n, value in features.items()]
        self.cdp("Emulation.setEmulatedMedia", {"features": told})

    def cdp(self, command: str, given: dict[str, Any]) -> Any:
        return self.driver.execute_cdp_cmd(command, given)

    def press(self, *keys: str) -> None:
        """Real key presses, to whatever has the focus."""
        from selenium.webdriver.common.action_chains import ActionChains

        for key in keys:
            ActionChains(self.driver).send_keys(key).perform()

    def complaints(self, *, restarted: bool = False) -> list[str]:
        """What the browser has to say since it was asked last; nothing is what is hoped for."""
        told = [str(entry["message"]) for entry in self.driver.get_log("browser")]  # type: ignore[no-untyped-call]
        if not restarted:
            return told
        return [line for line in told if not ("/events" in line and any(a in line for a in AWAY))]


@contextmanager
def chromium() -> Iterator[Page]:
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    assert program, "chromium is missing: `make browser` installs it, or says how"
    assert driver, "chromedriver is missing: `make browser` installs it, or says how"
    options = ChromeOptions()
    for flag in (*FLAGS, *(("--no-sandbox",) if os.geteuid() == 0 else ())):
        options.add_argument(flag)
    options.binary_location = program
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    started = Chrome(options=options, service=Service(driver))
    try:
        yield Page(started)
    finally:
        started.quit()
