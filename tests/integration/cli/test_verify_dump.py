"""`tidelog verify` on a workload's dump, while a topology runs."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from tests.topology import up
from tidelog.downstreams.collations import CASE_INSENSITIVE
from tidelog.errors import EXIT_FAILED


def test_a_workload_s_dump_with_the_applier_held_meanwhile(tmp_path: Path) -> None:
    place, dump = tmp_path / "copy.db", tmp_path / "dump.json"
    with up(tmp_path / "top", f"sqlite:///{place}") as running:
        command = [sys.executable, "-m", "tidelog.workload", "--nats", running.nats]
        command += ["--seconds", "2", "--rate", "100", "--dump", str(dump)]
        subprocess.run(command, check=True, capture_output=True, timeout=60)
        places = ("--source", f"dump://{dump}", "--downstream", f"sqlite:///{place}")
        done = running.command("verify", *places, "--pause", "--json")
        found = json.loads(done.stdout)
        assert (done.returncode, found["equal"]) == (0, True), done.stdout
        assert sum(table["source_rows"] for table in found["tables"]) > 50
        (applier,) = [node for node in running.status()["nodes"] if node["kind"] == "applier"]
        assert applier["state"] == "online"
        table = max(found["tables"], key=lambda one: int(one["source_rows"]))["source"]
        with closing(sqlite3.connect(place, isolation_level=None)) as file:
            for name, compare in CASE_INSENSITIVE.items():  # an index of this table may need it
                file.create_collation(name, compare)
            file.execute(f'DELETE FROM "{table}" NOT INDEXED WHERE rowid % 2')
        done = running.command("verify", *places)
        assert done.returncode == EXIT_FAILED
        assert f"{table}: missing: " in done.stdout
