"""One topology under load, one browser, for all tests of the page; each puts back what it does."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.console.browser import Page, chromium
from tests.topology import Running, up


@pytest.fixture(scope="package")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("console")


@pytest.fixture(scope="package")
def running(home: Path) -> Iterator[Running]:
    with up(home / "top", f"sqlite:///{home / 'down.db'}") as found:
        argv = [sys.executable, "-m", "tidelog.workload", "--nats", found.nats, "--linger", "0"]
        load = subprocess.Popen(
            [*argv, "--seconds", "600", "--rate", "40", "--tables", "14", "--ddl-share", "0.05"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            yield found
        finally:
            load.kill()
            load.wait()


@pytest.fixture(scope="package")
def browser() -> Iterator[Page]:
    with chromium() as page:
        yield page


@pytest.fixture
def page(browser: Page, running: Running) -> Iterator[Page]:
    browser.size(1280)
    browser.prefers(prefers_color_scheme="light", prefers_reduced_motion="reduce")
    browser.open(running.ready["console"])
    browser.complaints()
    yield browser
    assert not browser.complaints(), "the browser's console"
