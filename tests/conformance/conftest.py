from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.places import Place, RealPlace, SimPlace
from tests.servers import NatsServer, nats_server


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    """One private server for all conformance scenarios of the real bus."""
    with nats_server(tmp_path_factory.mktemp("nats")) as running:
        yield running


@pytest.fixture(params=["sim-1", "sim-2", "sim-3", "real"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """The simulated ports under three seeds, and the real ones."""
    kind, _, seed = str(request.param).partition("-")
    if kind == "sim":
        return SimPlace(int(seed))
    return RealPlace(request.getfixturevalue("server"), tmp_path / "data")
