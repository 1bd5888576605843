"""`/readyz` of a Pump that is still joining."""

from __future__ import annotations

import urllib.error
import urllib.request
from pathlib import Path

from tests.integration.pump_client.cluster import Service
from tests.processes import until
from tests.servers import nats_server


def readiness(service: Service) -> tuple[int, str]:
    """Status and text; 0 while nobody listens."""
    try:
        address = (service.directory / "http").read_text().strip()
        with urllib.request.urlopen(f"http://{address}/readyz", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


def test_a_joining_pump_is_not_ready_and_says_why(tmp_path: Path) -> None:
    with nats_server(tmp_path / "nats") as nats:
        flags = ["--nats-url", nats.url, "--oracle", "follow"]
        pump = Service("tidelog_pump", tmp_path / "pump", [*flags, "--node-id", "p"])
        registry = Service("tidelog_registry", tmp_path / "registry", flags)
        try:
            pump.start()
            until(lambda: "joining: nobody serves this subject" in readiness(pump)[1], "the reason")
            assert readiness(pump)[0] == 503
            registry.start()
            until(lambda: readiness(pump) == (200, "ok\n"), "the Pump to be online")
        finally:
            pump.kill()
            registry.kill()
