"""What an operator does with nodes that run: look, pause, resume, let go, watch."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.writing import CLUSTER_ID, pump_of, row
from tests.fixtures.capture import ddl_history_json
from tests.processes import until
from tests.topology import TIDELOG, Running, beside_waiting, up
from tidelog.errors import EXIT_FAILED, EXIT_UNAVAILABLE, EXIT_USAGE
from tidelog.messages import Nodes, NodeStatus
from tidelog.node_form import node_forms

FOLLOW = ("--oracle", "follow", "--cluster-id", str(CLUSTER_ID))
SEED = {"nodeId", "host", "state", "isAlive", "score", "label", "maxCommitTS", "updateTS"}
TOKEN = "open sesame"


def options(home: Path, pumps: int) -> tuple[str, ...]:
    """Of an `up` whose readers know the table that the tests write to."""
    history = home / "history.json"
    history.write_bytes(ddl_history_json("set-a"))
    return (*FOLLOW, "--ddl-history", f"file:{history}", "--pumps", str(pumps))


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    home = tmp_path_factory.mktemp("operating")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIDELOG_ADMIN_TOKEN", TOKEN)
        with up(home / "top", f"sqlite:///{home / 'down.db'}", *options(home, 2)) as found:
            yield found


def listed(running: Running, command: str = "nodes") -> dict[str, dict[str, Any]]:
    done = running.command(command, "--json")
    assert done.returncode == 0, done.stderr
    forms = json.loads(done.stdout)
    assert all(set(form) >= SEED for form in forms)
    return {form["nodeId"]: form for form in forms}


def states(running: Running) -> dict[str, str]:
    return {node: form["state"] for node, form in running.nodes().items()}


def carried_out(running: Running, *words: str) -> dict[str, Any]:
    done = running.command(*words, "--json")
    assert done.returncode == 0, done.stderr + running.logs()
    found: dict[str, Any] = json.loads(done.stdout)
    assert (found["action"], found["node"]) == words[:2]
    return found


@contextmanager
def watching(running: Running, into: Path) -> Iterator[None]:
    """`tidelog watch --json`, ended by Ctrl-C; a clean end is part of the test."""
    argv = [*TIDELOG, "watch", "--json", "--dir", str(running.directory)]
    said = into.with_suffix(".err")
    with into.open("w") as out, said.open("w") as err:
        process = subprocess.Popen(argv, stdout=out, stderr=err, text=True)
    try:
        until(lambda: "watching 4 nodes" in said.read_text(), "it to begin")
        yield
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 0
        assert len(beside_waiting(said.read_text())) == 1, said.read_text()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]


def seen(path: Path, node: str) -> list[str]:
    """Its states, one after the other; a mark that comes or goes is no change of state."""
    found = [line["state"] for line in lines(path) if line.get("nodeId") == node]
    return [state for state, _ in itertools.groupby(found)]


def test_every_kind_has_its_list_and_a_table(running: Running) -> None:
    kinds = ("pumps", "drainers", "appliers")
    assert {kind: set(listed(running, kind)) for kind in kinds} == {
        "pumps": {"pump-1", "pump-2"},
        "drainers": {"drainer"},
        "appliers": {"applier"},
    }
    for width in ("24", "80", "200"):
        argv = [*TIDELOG, "nodes", "--dir", str(running.directory)]
        env = os.environ | {"COLUMNS": width}
        table = subprocess.run(argv, capture_output=True, text=True, check=True, env=env).stdout
        assert all(len(line) <= int(width) for line in table.splitlines())
        assert all(node in table for node in ("pump-1", "pump-2", "drainer", "applier"))
        assert table.count("online") == 4


def test_pause_and_resume_hold_and_are_watched_over_a_nats_restart(
    running: Running, tmp_path: Path
) -> None:
    log = tmp_path / "watched"
    with watching(running, log):
        done = carried_out(running, "pause", "pump-2")
        assert (done["kind"], done["state"], done["may_lose"]) == ("pump", "paused", [])
        assert states(running)["pump-2"] == "paused"
        until(lambda: seen(log, "pump-2")[-2:] == ["pausing", "paused"], "both events")
        with pump_of(running) as pump:
            running.wait(pump.transaction(row(1)), 60)
        note = running.command("nodes").stdout
        assert "tidelog resume pump-2" in note
        running.kill("nats")
        until(lambda: any(line["event"] == "missed" for line in lines(log)), "what was missed")
        assert carried_out(running, "resume", "pump-2")["state"] == "online"
        until(lambda: seen(log, "pump-2")[-1] == "online", "the event after the restart")
        with pump_of(running) as pump:
            running.wait(pump.transaction(row(2)), 60)


def test_what_can_not_be_is_refused_with_its_exit_code(running: Running) -> None:
    for words, code, says in (
        (("pause", "pump-9"), EXIT_USAGE, "no node 'pump-9' is registered"),
        (("pause", "pump-1", "--kind", "drainer"), EXIT_USAGE, "'pump-1' is a pump"),
        (
            ("pause", "pump-1", "--cluster", "other", "--nats", running.nats),
            EXIT_UNAVAILABLE,
            "cluster 'other' does not answer",
        ),
    ):
        done = running.command(*words)
        assert done.returncode == code, done.stderr
        assert done.stdout == ""
        assert says in done.stderr.replace("\n", " ")
    # For a lease after its start, the registry knows too little to say why.
    giving_up = ("offline", "pump-1", "--accept-loss", "--yes")
    until(lambda: "online and reachable" in running.command(*giving_up).stderr, "the refusal")
    assert running.command(*giving_up).returncode == EXIT_FAILED
    assert states(running)["pump-1"] == "online"


def over_http(
    running: Running, service: str, method: str, path: str, token: str | None = TOKEN
) -> tuple[int, Any]:
    state = json.loads((running.directory / "tidelog.json").read_text())
    request = urllib.request.Request(f"{state['http'][service]}{path}", method=method)
    if token is not None:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


@pytest.mark.parametrize("service", ["registry", "pump-1", "drainer", "applier"])
def test_every_service_has_the_original_s_paths(running: Running, service: str) -> None:
    def ask(method: str, path: str, token: str | None = TOKEN) -> tuple[int, Any]:
        return over_http(running, service, method, path, token)

    assert {p["nodeId"] for p in ask("GET", "/pumps", None)[1]["pumps"]} == {"pump-1", "pump-2"}
    (drainer,) = ask("GET", "/drainers", None)[1]["drainers"]
    assert set(drainer) == set(node_forms(Nodes([NodeStatus("d")]))[0])
    assert (
        drainer["http"] == over_http(running, "drainer", "GET", "/status")[1]["config"]["http-addr"]
    )
    assert ask("GET", "/status", None)[0] == 200
    assert ask("PUT", "/state/pump-2/pause", None)[0] == 401
    assert ask("PUT", "/state/pump-2/pause", "sesame")[0] == 403
    assert ask("PUT", "/state/pump-9/pause")[0] == 404
    assert ask("PUT", "/state/pump-2/jump")[0] == 404
    assert states(running)["pump-2"] == "online"
    assert ask("PUT", "/state/pump-2/pause")[0] == 200
    until(lambda: states(running)["pump-2"] == "paused", "the pause")
    assert ask("PUT", "/state/pump-2/resume")[0] == 200
    until(lambda: states(running)["pump-2"] == "online", "its end")


def test_a_registry_that_does_not_answer_is_a_503(running: Running) -> None:
    registry = running.pid("registry")
    os.kill(registry, signal.SIGSTOP)
    try:
        status, body = over_http(running, "pump-1", "PUT", "/state/pump-2/pause")
        assert (status, body["code"]) == (503, "Unavailable")
        assert "registry" in body["message"]
        assert over_http(running, "drainer", "GET", "/pumps")[0] == 503
    finally:
        os.kill(registry, signal.SIGCONT)
    until(
        lambda: all(form["isAlive"] for form in running.nodes().values()), "all to be heard again"
    )


def test_names_are_completed_from_the_running_topology(running: Running, tmp_path: Path) -> None:
    def completed(directory: Path, typed: str) -> list[str]:
        script = Path(TIDELOG[0]).parent / "tidelog"
        words = f"tidelog pause --dir {directory} {typed}"
        done = subprocess.run(
            [script],
            env=os.environ
            | {"_TIDELOG_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": "4"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.stderr == ""
        return done.stdout.split()

    assert completed(running.directory, "pu") == ["pump-1", "pump-2"]
    assert completed(running.directory, "drain") == ["drainer"]
    assert completed(tmp_path / "none", "pu") == []


def test_bash_itself_completes_names_behind_a_url(running: Running) -> None:
    """It breaks words at each colon."""
    script = """
        source <(tidelog --show-completion bash)
        COMP_WORDS=(tidelog pause --nats nats : //HOST : PORT pu)
        COMP_CWORD=8
        _tidelog_completion tidelog
        printf '%s\\n' "${COMPREPLY[@]}"
    """
    host, _, port = running.nats.removeprefix("nats://").partition(":")
    done = subprocess.run(
        ["bash", "-c", script.replace("HOST", host).replace("PORT", port)],
        env=os.environ | {"PATH": f"{Path(TIDELOG[0]).parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout.split(), done.stderr) == (["pump-1", "pump-2"], "")


def test_who_waits_for_a_registry_is_told(running: Running, tmp_path: Path) -> None:
    """One that hangs, and one that is not there."""
    pid = running.pid("registry")
    os.kill(pid, signal.SIGSTOP)
    try:
        done = running.command("nodes")
    finally:
        os.kill(pid, signal.SIGCONT)
    assert done.returncode == EXIT_UNAVAILABLE
    assert "waiting for the registry of cluster 'default'" in done.stderr.splitlines()
    said = tmp_path / "said"
    with said.open("w") as err:
        process = subprocess.Popen(
            [*TIDELOG, "watch", "--nats", running.nats, "--cluster", "none"], stderr=err
        )
    try:
        until(lambda: "not yet: the registry of cluster 'none' does not" in said.read_text(), "why")
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 0
    finally:
        process.kill()
        process.wait()
    assert said.read_text().count("\n") == 1
    until(
        lambda: all(form["isAlive"] for form in running.nodes().values()), "all to be heard again"
    )


def test_a_pump_is_let_go_and_the_rest_goes_on(tmp_path: Path) -> None:
    directory, database = tmp_path / "top", f"sqlite:///{tmp_path / 'down.db'}"
    with up(directory, database, *options(tmp_path, 2)) as running:
        with pump_of(running) as pump:
            pump.transaction(row(1))
        done = carried_out(running, "offline", "pump-2")
        assert done["state"] == listed(running)["pump-2"]["state"] == "offline"
        again = running.command("pause", "pump-2")
        assert again.returncode == EXIT_FAILED, again.stderr
        table = running.command("pumps").stdout
        assert "pump-2" not in table
        assert "1 offline: --all shows them" in table
        assert "pump-2" in running.command("pumps", "--all").stdout
        with pump_of(running) as pump:
            running.wait(pump.transaction(row(2)), 60)


def test_up_says_that_its_only_pump_is_paused_and_how_to_resume_it(tmp_path: Path) -> None:
    directory, database = tmp_path / "top", f"sqlite:///{tmp_path / 'down.db'}"
    with up(directory, database, *options(tmp_path, 1)) as running:
        carried_out(running, "pause", "pump-1")
        assert "no Pump takes writes" in running.command("status").stdout
    argv = [*TIDELOG, "up", "--dir", str(directory), "--downstream", database]
    argv += [*options(tmp_path, 1), "--json"]
    err = tmp_path / "err"
    with err.open("w") as sink:
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=sink, text=True)
    try:
        until(lambda: "waiting for pump-1: an operator paused it" in err.read_text(), "a line")
        assert f"tidelog resume pump-1 --dir {directory}" in err.read_text()
        again = Running(directory, process, {})
        # Refused for one lease, if the first `up` was over before its registry had settled.
        until(lambda: again.command("resume", "pump-1").returncode == 0, "the resume")
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["event"] == "ready"
        assert again.stop() == 0, err.read_text()
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def test_a_pump_that_is_gone_for_good_is_given_up_by_an_explicit_word(tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path / 'down.db'}"
    with up(tmp_path / "top", database, *options(tmp_path, 2)) as running:
        gone = running.pid("pump-2")
        os.kill(gone, signal.SIGSTOP)
        try:
            until(lambda: bool(running.nodes()["pump-2"]["unreachable"]), "its lease to end")
            assert "tidelog offline pump-2 --accept-loss" in running.command("pumps").stdout
            unasked = running.command("offline", "pump-2", "--accept-loss")
            assert (unasked.returncode, "--yes" in unasked.stderr) == (EXIT_USAGE, True)
            assert "pump-2 was last heard of" in unasked.stderr
            assert states(running)["pump-2"] == "online"
            done = carried_out(running, "offline", "pump-2", "--accept-loss", "--yes")
            assert done["state"] == states(running)["pump-2"] == "offline"
            assert any("may be lost" in line for line in done["may_lose"])
            with pump_of(running) as pump:
                running.wait(pump.transaction(row(1)), 60)
        finally:
            os.kill(gone, signal.SIGCONT)
