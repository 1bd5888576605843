"""`tidelog up` and the commands beside it, as scripts and people use them."""

from __future__ import annotations

import json
import lzma
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from tests.acceptance.status_api import status_api
from tests.acceptance.writing import CLUSTER_ID, pump_of, row
from tests.fixtures.capture import DATA, ddl_history_json
from tests.processes import until
from tests.topology import TIDELOG, Running, beside_waiting, tidelog, up
from tidelog.errors import EXIT_UNAVAILABLE, EXIT_USAGE
from tidelog_proto.pump_pb2 import WriteBinlogReq, WriteBinlogResp


@pytest.fixture(scope="module")
def history() -> Iterator[str]:
    with status_api(ddl_history_json("set-a")) as api:
        yield api


def options(history: str) -> tuple[str, ...]:
    follow = ("--oracle", "follow", "--ddl-history", history, "--cluster-id", str(CLUSTER_ID))
    return ("--pumps", "2", *follow)


@pytest.fixture(scope="module")
def running(history: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    home = tmp_path_factory.mktemp("cli")
    with up(home / "top", f"sqlite:///{home / 'down.db'}", *options(history)) as found:
        yield found


def lines_of(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()]


def test_up_says_ready_once_in_its_documented_form_and_stops_in_order(tmp_path: Path) -> None:
    argv = [*TIDELOG, "up", "--dir", str(tmp_path / "top"), "--pumps", "3", "--json"]
    argv += ["--downstream", f"sqlite:///{tmp_path / 'down.db'}", "--pump-host", "localhost"]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        assert set(ready) == {"event", "nats", "pumps", "http", "console"}
        assert ready["event"] == "ready"
        assert ready["nats"].startswith("nats://127.0.0.1:")
        assert [p["node"] for p in ready["pumps"]] == ["pump-1", "pump-2", "pump-3"]
        assert all(set(p) == {"node", "grpc"} for p in ready["pumps"])
        assert all(p["grpc"].startswith("localhost:") for p in ready["pumps"])
        assert set(ready["http"]) == {
            "registry",
            "pump-1",
            "pump-2",
            "pump-3",
            "drainer",
            "applier",
        }
        state = json.loads((tmp_path / "top" / "tidelog.json").read_text())
        assert ready["console"] == state["console"]
        assert ready["console"].startswith("http://127.0.0.1:")
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=90)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, err
    assert out == ""
    assert beside_waiting(err) == []
    assert not [pid for pid in state["pids"].values() if Path(f"/proc/{pid}").exists()]


def test_a_second_up_in_the_same_directory_is_refused(running: Running, tmp_path: Path) -> None:
    again = running.command("up", "--downstream", f"sqlite:///{tmp_path / 'other.db'}")
    assert again.returncode == EXIT_USAGE
    assert again.stdout == ""
    first = beside_waiting(again.stderr)[0]
    assert first == f"ForeignDirectory: another `tidelog up` runs in {running.directory}"
    # The first one never noticed.
    assert running.process.poll() is None
    with pump_of(running) as pump:
        running.wait(pump.transaction(row(1)), 30)


def test_status_for_machines(running: Running) -> None:
    shown = running.status()
    keys = {"feed", "nodes", "resolved_ts", "published_ts", "applied_ts", "lag_ms", "safe_point"}
    assert set(shown) == keys | {"consumers"}
    assert {n["nodeId"] for n in shown["nodes"]} == {"pump-1", "pump-2", "drainer", "applier"}
    assert all(n["isAlive"] and n["state"] == "online" for n in shown["nodes"])
    assert set(shown["lag_ms"]) == {"published", "applied"}


def test_wait_returns_when_it_is_there_and_in_time_when_it_is_not(running: Running) -> None:
    with pump_of(running) as pump:
        commit_ts = pump.transaction(row(2))
    done = running.command("wait", "--commit-ts", str(commit_ts), "--timeout", "30", "--json")
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    assert set(shown) == {"applied_ts"}
    assert shown["applied_ts"] >= commit_ts
    never = running.command("wait", "--commit-ts", str(1 << 62), "--timeout", "0.5")
    assert never.returncode == EXIT_UNAVAILABLE
    assert "DeadlineExceeded: the downstream holds everything up to" in never.stderr


def test_tail_for_machines_ends_when_idle(running: Running) -> None:
    with pump_of(running) as pump:
        commit_ts = pump.transaction(row(3, b"tail"))
    running.wait(commit_ts, 30)
    done = running.command("tail", "--json", "--until-idle", "--table", "app.t1")
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    # The table's own DDL may have waited for this transaction, and then has its commit_ts.
    mine = [e for e in events if e["commit_ts"] == commit_ts and "op" in e]
    assert [(e["op"], e["table"], e["after"]) for e in mine] == [
        ("c", "app.t1", {"id": 3, "v": "tail", "n": 3})
    ]
    positions = [e["commit_ts"] for e in events]
    assert positions == sorted(positions)
    text = running.command("tail", "--until-idle", "--table", "app.t1").stdout.splitlines()
    assert len(text) == len(events), "an event is a line for grep, too"
    after = running.command("tail", "--json", "--until-idle", "--after", str(commit_ts))
    assert after.returncode == 0
    assert str(commit_ts) not in after.stdout
    nothing = running.command("tail", "--json", "--until-idle", "--after", "now")
    assert (nothing.returncode, nothing.stdout) == (0, ""), nothing.stderr
    wrong = running.command("tail", "--after", "then")
    assert wrong.returncode == EXIT_USAGE
    assert "--after 'then' is no commit_ts" in wrong.stderr


def test_each_pump_has_a_unix_socket_for_a_tidb_on_this_machine(running: Running) -> None:
    state = json.loads((running.directory / "tidelog.json").read_text())
    sockets = [pump["socket"] for pump in state["pumps"]]
    assert sockets == [str(running.directory / p["node"] / "pump.sock") for p in state["pumps"]]
    with grpc.insecure_channel(f"unix:{sockets[0]}") as channel:
        write = channel.unary_unary("/binlog.Pump/WriteBinlog", None, None)
        probe = WriteBinlogReq(clusterID=CLUSTER_ID).SerializeToString()
        assert not WriteBinlogResp.FromString(write(probe, timeout=10)).errmsg


def test_a_capture_is_replayed_and_counted(running: Running, tmp_path: Path) -> None:
    whole = lzma.decompress((DATA / "set-a" / "raw" / "tidb_to_pump.bin.xz").read_bytes())
    end = 0
    for _ in range(40):
        end += 4 + int.from_bytes(whole[end : end + 4], "big")
    part = tmp_path / "part.bin"
    part.write_bytes(whole[:end])
    cluster = ("--cluster-id", str(CLUSTER_ID))
    done = running.command("capture", "replay", str(part), "--json", *cluster)
    assert done.returncode == 0, done.stderr
    counted = json.loads(done.stdout)
    assert (counted["sent"], counted["transactions"]) == (40, 20)
    part.write_bytes(whole[: end - 3])
    cut = running.command("capture", "replay", str(part), *cluster)
    assert cut.returncode == EXIT_USAGE
    assert f"{part} is cut within the record at" in cut.stderr
    part.write_bytes(whole[:end])
    by_nats = tidelog("capture", "replay", str(part), "--json", *cluster, "--nats", running.nats)
    assert by_nats.returncode == 0, by_nats.stderr
    assert json.loads(by_nats.stdout) == counted, "the same bytes again are the same transactions"
    foreign = running.command("capture", "replay", str(part), "--cluster-id", "7")
    assert foreign.returncode == EXIT_USAGE
    assert "the Pump refuses record 0 at 127.0.0.1:" in foreign.stderr
    assert "cluster id 7" in foreign.stderr


def test_a_capture_that_can_not_be_read_is_named(tmp_path: Path) -> None:
    junk, empty, torn = tmp_path / "junk.bin.xz", tmp_path / "empty.bin", tmp_path / "torn.bin.xz"
    junk.write_bytes(b"no xz at all")
    empty.touch()
    torn.write_bytes(lzma.compress(bytes(4000))[:-20])
    for path, what in ((junk, "no xz file"), (empty, "is empty"), (torn, "a damaged one")):
        done = tidelog("capture", "replay", str(path), "--grpc", "127.0.0.1:1")
        assert done.returncode == EXIT_USAGE, done.stderr
        assert str(path) in done.stderr
        assert what in done.stderr
        assert "Traceback" not in done.stderr


NEVER_STARTED = (
    ("status",),
    ("status", "--json"),
    ("tail",),
    ("wait", "--commit-ts", "1"),
    ("capture", "replay", str(DATA / "set-x" / "raw" / "tidb_to_pump.bin.xz")),
)


@pytest.mark.parametrize("command", NEVER_STARTED, ids=" ".join)
def test_without_a_topology_every_command_says_so_in_one_line(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    done = tidelog(*command, "--dir", str(tmp_path))
    assert done.returncode == EXIT_UNAVAILABLE
    assert done.stdout == ""
    error, hint = beside_waiting(done.stderr)
    assert error == f"Unavailable: no topology was started in {tmp_path}"
    assert hint.strip().startswith("try: start one with `tidelog up")


def test_up_again_goes_on_where_it_was(history: str, tmp_path: Path) -> None:
    directory, database = tmp_path / "top", f"sqlite:///{tmp_path / 'down.db'}"
    with up(directory, database, *options(history)) as first, pump_of(first) as pump:
        written = [pump.transaction(row(n)) for n in range(1, 6)]
        first.wait(written[-1], 30)
        before = first.ready
    kept = tidelog("tail", "--json", "--table", "t1", "--dir", str(directory))
    events = [json.loads(line) for line in lines_of(kept.stdout)]
    assert [e["commit_ts"] for e in events if "op" in e] == written
    # Between the two, every command says in one line that nothing runs.
    for command in (NEVER_STARTED[0], NEVER_STARTED[-1]):
        done = tidelog(*command, "--dir", str(directory))
        assert done.returncode == EXIT_UNAVAILABLE
        assert len(beside_waiting(done.stderr)) == 2, done.stderr
    with up(directory, database, *options(history)) as second, pump_of(second) as pump:
        assert second.ready["nats"] == before["nats"]
        assert second.ready["pumps"] == before["pumps"]
        assert second.status()["applied_ts"] >= written[-1]
        second.wait(pump.transaction(row(9)), 30)
        tail = second.command("tail", "--json", "--until-idle", "--table", "t1").stdout
        rows = [json.loads(line) for line in tail.splitlines()]
        assert [e["after"]["id"] for e in rows if "after" in e] == [1, 2, 3, 4, 5, 9]


def test_a_child_that_dies_is_started_again_and_said(running: Running) -> None:
    old = running.pid("applier")
    os.kill(old, signal.SIGKILL)
    until(lambda: running.pid("applier") != old, "the Applier to be started again")
    err = running.directory.with_suffix(".err")
    until(lambda: "applier was ended by signal 9; it is started again" in err.read_text(), "a line")


def test_sigterm_before_ready_ends_it_too(tmp_path: Path) -> None:
    argv = [*TIDELOG, "up", "--dir", str(tmp_path / "top"), "--json"]
    argv += ["--downstream", f"sqlite:///{tmp_path / 'down.db'}"]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        until((tmp_path / "top" / "nats" / "nats.conf").exists, "it to begin")
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=45)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, out) == (0, ""), err
