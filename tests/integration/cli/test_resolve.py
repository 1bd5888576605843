"""`tidelog resolve` and `inspect` on a topology that runs: a transaction whose client died."""

from __future__ import annotations

import json
import time
from pathlib import Path

import grpc

from tests.processes import until
from tests.topology import Running, up
from tidelog.errors import EXIT_FAILED, EXIT_USAGE
from tidelog.timestamps import compose
from tidelog_proto.binlog_pb2 import Binlog
from tidelog_proto.pump_pb2 import WriteBinlogReq, WriteBinlogResp

CLUSTER_ID = 7


def write(address: str, binlog: bytes) -> None:
    request = WriteBinlogReq(clusterID=CLUSTER_ID, payload=binlog).SerializeToString()
    with grpc.insecure_channel(address) as channel:
        answer = channel.unary_unary("/binlog.Pump/WriteBinlog", None, None)(request, timeout=20)
    assert not WriteBinlogResp.FromString(answer).errmsg


def shown(running: Running) -> dict[str, str]:
    return {
        node["nodeId"]: node["detail"].get("oldest_open", "")
        for node in running.status()["nodes"]
        if node["kind"] == "pump"
    }


def test_an_operator_closes_what_nobody_else_will(tmp_path: Path) -> None:
    options = ("--pumps", "2", "--oracle", "follow", "--cluster-id", str(CLUSTER_ID))
    with up(tmp_path / "top", f"sqlite:///{tmp_path / 'down.db'}", *options) as running:
        base = compose(int(time.time() * 1000))
        addresses = {pump["node"]: pump["grpc"] for pump in running.ready["pumps"]}
        for n in range(2):
            prewrite = Binlog(tp=0, start_ts=base + n, commit_ts=0, prewrite_key=b"key")  # type: ignore[arg-type]
            write(addresses["pump-2"], prewrite.SerializeToString())
        until(lambda: str(base) in shown(running)["pump-2"], "the oldest open Prewrite in status")
        told = shown(running)
        assert b"key".hex() in told["pump-2"]
        assert told["pump-1"] == ""

        start = str(base)
        nobody = running.command("resolve", start, "--rollback")
        assert (nobody.returncode, "--yes" in nobody.stderr) == (EXIT_USAGE, True)
        commit = running.command("resolve", start, "--commit", str(base + 9), "--yes", "--json")
        assert commit.returncode == 0, commit.stderr
        said = json.loads(commit.stdout)["pumps"]
        assert {node: (s["state"], s["commit_ts"]) for node, s in said.items()} == {
            "pump-2": ("committed", base + 9)
        }
        again = running.command("resolve", start, "--rollback", "--yes")
        assert again.returncode == EXIT_FAILED
        assert f"committed at {base + 9}" in again.stderr
        rolled = running.command("resolve", str(base + 1), "--rollback", "--yes")
        assert rolled.returncode == 0, rolled.stderr
        until(lambda: not any(shown(running).values()), "nothing open in status")
        running.wait(base + 9)

        found = running.command("inspect", "--ts", start, "--json")
        assert found.returncode == 0, found.stdout
        kinds = [one["kind"] for file in json.loads(found.stdout)["files"] for one in file["found"]]
        assert kinds == ["prewrite", "commit"]
