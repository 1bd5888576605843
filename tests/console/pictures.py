"""The console's pictures in docs/images: `python -m tests.console.pictures`. Look at them then.

A topology under load that changes, with a third Pump, a Drainer that stands by, and a Pump that an
operator has paused; in both themes, wide and on a phone (there from the top to the lags' end).
"""

from __future__ import annotations

import argparse
import base64
import io
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from PIL import Image

from tests.console.browser import Page, chromium
from tests.console.test_what_is_shown import beside
from tests.topology import Running, up

IMAGES = Path(__file__).parents[2] / "docs" / "images"
RATES = (30, 60, 25, 40)
"""Transactions a second, one after the other; the last go on while pictures are taken."""
WIDE, NARROW = 1280, 390
COLOURS = 256


def argv(running: Running, rate: int, seconds: float) -> list[str]:
    more = ["--tables", "12", "--ddl-share", "0.02", "--dead-share", "0", "--linger", "0"]
    asked = ["--nats", running.nats, "--rate", str(rate), "--seconds", str(seconds)]
    return [sys.executable, "-m", "tidelog.workload", *asked, *more]


@contextmanager
def load(running: Running, minutes: float) -> Iterator[None]:
    """Entered when there is enough to be seen."""
    *first, last = RATES
    seconds = 60 * minutes / len(RATES)
    for rate in first:
        subprocess.run(argv(running, rate, seconds), stdout=subprocess.DEVNULL, check=True)
    going_on = subprocess.Popen(argv(running, last, 0), stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        going_on.terminate()
        going_on.wait()


def take(page: Page, name: str, width: int, last: str) -> None:
    """From the page's top to the end of the part `last`."""
    page.size(width)
    page.until(lambda: page.drawn("pump-3")[1] == "online", "the picture of this width")
    page.until(lambda: "not known" not in page.text("#lags"), "the lags")
    bottom = "return document.querySelector(arguments[0]).getBoundingClientRect().bottom + scrollY"
    clip = {"x": 0, "y": 0, "width": width, "height": page.js(bottom, last) + 12, "scale": 1}
    asked = {"format": "png", "clip": clip, "captureBeyondViewport": True}
    taken = base64.b64decode(page.cdp("Page.captureScreenshot", asked)["data"])
    with Image.open(io.BytesIO(taken)) as picture:
        picture.convert("RGB").quantize(COLOURS).save(IMAGES / f"{name}.png", optimize=True)


def pictures(page: Page) -> None:
    for theme in ("light", "dark"):
        page.prefers(prefers_color_scheme=theme, prefers_reduced_motion="reduce")
        chosen = f"return document.documentElement.dataset.theme === '{theme}'"
        page.until(partial(page.js, chosen), theme)
        take(page, f"console-{theme}", WIDE, "footer")
        take(page, f"console-narrow-{theme}", NARROW, "section[aria-labelledby=lag-title]")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=12.0, help="of load before them")
    minutes = parser.parse_args().minutes
    with tempfile.TemporaryDirectory() as made:
        home = Path(made)
        with (
            up(home / "top", f"sqlite:///{home / 'down.db'}") as running,
            beside(running, home, "pump", "pump-3", "--grpc-addr", "127.0.0.1:0"),
            beside(running, home, "drainer", "drainer-2"),
            load(running, minutes),
            chromium() as page,
        ):
            page.size(WIDE)
            page.open(running.ready["console"])
            assert running.command("pause", "pump-2").returncode == 0
            page.until(lambda: "pump-2 is paused" in page.text("#attention"), "pump-2 to be paused")
            page.until(lambda: page.drawn("drainer-2")[1] == "standby", "the standby")
            pictures(page)
            assert running.command("resume", "pump-2").returncode == 0
            assert running.command("offline", "pump-3").returncode == 0


if __name__ == "__main__":
    main()
