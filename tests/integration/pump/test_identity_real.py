"""Whose directory it is, with real processes, locks and a registry."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from tests.integration.pump_client.cluster import Service, cluster
from tests.processes import until
from tests.servers import nats_server
from tidelog.errors import EXIT_USAGE


def ended(service: Service) -> int:
    """The exit code of one that ends by itself."""
    process = service.process
    assert process is not None
    until(lambda: process.poll() is not None, f"{service.directory.name} to end")
    return process.wait()


def twin(pump: Service, directory: Path) -> Service:
    return Service(pump.module, directory, pump.flags)


def test_a_second_directory_with_a_living_pumps_id_ends_with_a_clear_error(tmp_path: Path) -> None:
    with cluster(tmp_path, pumps=1) as running:
        (pump,) = running.pumps
        empty = twin(pump, tmp_path / "empty")
        shutil.copytree(pump.directory, tmp_path / "copy")
        for second in (empty, twin(pump, tmp_path / "copy")):
            second.start()
            assert ended(second) == EXIT_USAGE, second.log()
            assert "a Pump with the node id pump-1 runs already" in second.log()
        assert pump.ready()
        # With the first one down it is the registry that knows.
        pump.kill()
        empty.start()
        assert ended(empty) == EXIT_USAGE, empty.log()
        assert "pump-1 is known with another data directory" in empty.log()
        pump.start()
        pump.wait()


def test_another_clusters_directory_is_refused(tmp_path: Path) -> None:
    with nats_server(tmp_path / "nats") as nats:
        flags = ["--nats-url", nats.url, "--oracle", "follow", "--node-id", "p"]
        pump = Service("tidelog_pump", tmp_path / "pump", flags)
        pump.start()
        until(lambda: (pump.directory / ".node").exists(), "its record")
        pump.kill()
        for change, says in (
            (["--cluster", "other"], "set cluster = 'default'"),
            (["--cluster-id", "9"], "set cluster-id = 0"),
        ):
            pump.flags = [*flags, *change]
            pump.start()
            assert ended(pump) == EXIT_USAGE, pump.log()
            assert says in pump.log()


def test_a_locked_directory_names_who_holds_it(tmp_path: Path) -> None:
    with nats_server(tmp_path / "nats") as nats:
        pump = Service(
            "tidelog_pump", tmp_path / "pump", ["--nats-url", nats.url, "--oracle", "follow"]
        )
        second = twin(pump, pump.directory)
        pump.start()
        try:
            until(lambda: (pump.directory / ".node").exists(), "its record")
            assert pump.process is not None
            holder = pump.process.pid
            second.start()
            assert ended(second) == EXIT_USAGE, second.log()
            assert re.search(rf"\.lock is locked by process {holder} on ", second.log())
        finally:
            pump.kill()
