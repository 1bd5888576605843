"""A real topology under a workload, scraped by a real Prometheus: what alerts and dashboard ask for
is there, and nothing alerts."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.integration.observe.shipped import (
    PROMETHEUS,
    alerts,
    panel_expressions,
    panels,
    series_of,
    variable_expressions,
)
from tests.processes import until
from tests.servers import free_port
from tests.topology import Running, up

SERVICES = ("registry", "pump-1", "pump-2", "drainer", "applier", "backfill")
SUFFIXES = {
    "counter": ("_total",),
    "histogram": ("_bucket", "_sum", "_count"),
    "summary": ("_sum", "_count"),
}
ENDS_AFTER = 60.0


class Scraped:
    """The topology, and a Prometheus that looks at it each second."""

    def __init__(self, addresses: dict[str, str], prometheus: str) -> None:
        self.addresses = addresses
        self._prometheus = prometheus

    def exposed(self) -> set[str]:
        """The names of every series that any service has, or would have."""
        found: set[str] = set()
        for address in self.addresses.values():
            for family in text_string_to_metric_families(_get(f"{address}/metrics")):
                names = [family.name + end for end in SUFFIXES.get(family.type, ("",))]
                found |= {*names, *(sample.name for sample in family.samples)}
        return found

    def query(self, expression: str) -> list[dict[str, Any]]:
        asked = urllib.parse.urlencode({"query": expression})
        answer = json.loads(_get(f"{self._prometheus}/api/v1/query?{asked}"))
        assert answer["status"] == "success", (expression, answer)
        found: list[dict[str, Any]] = answer["data"]["result"]
        return found


def _get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return str(answer.read().decode())


def _workload(running: Running) -> None:
    argv = [sys.executable, "-m", "tidelog.workload", "--nats", running.nats, "--seed", "5"]
    argv += ["--transactions", "300", "--seconds", "60", "--rate", "150", "--tables", "4"]
    done = subprocess.run(
        [*argv, "--dead-share", "0"], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr


@contextmanager
def _backfill(home: Path, running: Running) -> Iterator[str]:
    """The service that `up` does not start; its address."""
    argv = [sys.executable, "-m", "tidelog_backfill", "--nats-url", running.nats]
    process = subprocess.Popen([*argv, "--data-dir", str(home / "backfill")])
    try:
        file = home / "backfill/http"
        until(lambda: file.exists() and bool(file.read_text().strip()), "the service to listen")
        yield f"http://{file.read_text().strip()}"
    finally:
        process.terminate()
        process.wait(30)


@contextmanager
def _prometheus(home: Path, addresses: dict[str, str]) -> Iterator[str]:
    """Our rules, and the services where they are now."""
    server = shutil.which("prometheus")
    assert server, "prometheus is missing: tests/need.sh promtool prometheus"
    scrapes = [
        {
            "job_name": job,
            "static_configs": [
                {"targets": [a.removeprefix("http://") for n, a in addresses.items() if job in n]}
            ],
        }
        for job in ("registry", "pump", "drainer", "applier", "backfill")
    ]
    config = home / "prometheus.yml"
    every = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    rules = [str(PROMETHEUS / "alerts.yml")]
    config.write_text(
        yaml.safe_dump({"global": every, "rule_files": rules, "scrape_configs": scrapes})
    )
    url = f"127.0.0.1:{free_port()}"
    argv = [server, f"--config.file={config}", f"--storage.tsdb.path={home / 'tsdb'}"]
    with (home / "prometheus.log").open("w") as log:
        process = subprocess.Popen([*argv, f"--web.listen-address={url}"], stdout=log, stderr=log)
    try:
        until(lambda: _is_ready(f"http://{url}/-/ready"), (home / "prometheus.log").read_text)
        yield f"http://{url}"
    finally:
        process.terminate()
        process.wait(30)


def _is_ready(url: str) -> bool:
    try:
        return bool(_get(url))
    except OSError:
        return False


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scraped]:
    home = tmp_path_factory.mktemp("observe")
    with (
        up(home / "top", f"sqlite:///{home / 'down.db'}") as running,
        _backfill(home, running) as backfill,
    ):
        addresses = {**running.ready["http"], "backfill": backfill}
        assert sorted(addresses) == sorted(SERVICES)
        with _prometheus(home, addresses) as prometheus:
            found = Scraped(addresses, prometheus)
            _workload(running)
            until(
                lambda: (
                    len(found.query("up == 1")) == len(SERVICES)
                    and bool(found.query("tidelog_applier_rows_total > 300"))
                ),
                "everything to be scraped after the workload",
                ENDS_AFTER,
            )
            yield found


def test_every_expression_names_series_that_exist(scraped: Scraped) -> None:
    exposed = scraped.exposed()
    asked = {rule["alert"]: rule["expr"] for rule in alerts()}
    asked |= {f"panel {title}: {expr}": expr for title, expr in panel_expressions()}
    asked |= {f"variable {expr}": expr for expr in variable_expressions()}
    assert len(asked) > 100
    missing = {who: series_of(expr) - exposed for who, expr in asked.items()}
    assert {who: names for who, names in missing.items() if names} == {}
    of_targets = {"TidelogServiceDown", "TidelogServiceGone"}
    assert {who for who, expr in asked.items() if not series_of(expr)} == of_targets


def test_every_panel_is_understood_and_the_overview_shows_something(scraped: Scraped) -> None:
    titles = [panel["title"] for panel in panels()]
    overview = titles[1 : titles.index("Pump")]

    def empty() -> list[str]:
        found = [(title, scraped.query(expression)) for title, expression in panel_expressions()]
        shown = {title for title, series in found if series}
        return [title for title in overview if title not in shown]

    # A rate is nothing before the second scrape.
    until(lambda: not empty(), lambda: f"panels that show nothing: {empty()}", ENDS_AFTER)


def test_a_topology_that_works_alerts_nobody(scraped: Scraped) -> None:
    firing = scraped.query('ALERTS{alertstate="firing"}')
    assert [series["metric"] for series in firing] == []
    assert scraped.query("sum(tidelog_drainer_txns_published_total)")[0]["value"][1] != "0"
    lag = scraped.query("max(binlog_drainer_event{type='savepoint'})")
    assert float(lag[0]["value"][1]) > 0
