"""A whole topology under keys and certificates: all of it works with nothing denied, an operator's
orders need an operator's key, and no secret shows anywhere."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

import tidelog as library
from tests.processes import until
from tests.security_cells import CELLS
from tests.servers import free_port
from tests.topology import Running, beside_waiting, tidelog, up
from tidelog.config import Secret, ServiceConfig
from tidelog.errors import Unauthenticated
from tidelog.real.bus import NatsBus
from tidelog.security.access import NatsAccess
from tidelog.security.identities import ADMIN, MONITOR, SUBSCRIBER, WRITER
from tidelog.security.tls import TlsFiles
from tidelog.subjects import escape
from tidelog_applier.config import ApplierConfig
from tidelog_cli import keys
from tidelog_cli.cert_files import grpc_files, nats_access

CANARY = f"canary{secrets.token_hex(8)}"
DENIED = "Violation"
WAITS = ("it is waited for", "(2003)")
"""A NATS server, and MySQL, that can't be reached."""


class Secured(NamedTuple):
    running: Running
    home: Path
    workload: dict[str, Any]

    def access(self, identity: str) -> NatsAccess:
        return access(self.home, identity)

    def flags(self, identity: str) -> list[str]:
        return ["--nats", self.running.nats, *flags(self.access(identity))]

    def nats_log(self) -> str:
        return (self.running.directory / "nats" / "nats.log").read_text()


def access(home: Path, identity: str) -> NatsAccess:
    key = NatsAccess(nats_nkey_file=keys.seed_file(home / "keys", identity))
    tls = nats_access(home / "certs", identity)
    return NatsAccess(
        nats_nkey_file=key.nats_nkey_file,
        nats_ca=tls.nats_ca,
        nats_cert=tls.nats_cert,
        nats_key=tls.nats_key,
    )


def flags(files: NatsAccess | TlsFiles) -> list[str]:
    named = [(name, getattr(files, name)) for name in files.__struct_fields__]
    return [f"--{name.replace('_', '-')}={path}" for name, path in named if path]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    home = tmp_path_factory.mktemp("secured")
    options = [f"--keys={home / 'keys'}", f"--certs={home / 'certs'}"]
    secret = {"TIDELOG_ADMIN_TOKEN": CANARY, "TIDELOG_APPLIER_DOWNSTREAM_PASSWORD": CANARY}
    with up(home / "top", f"sqlite:///{home / 'copy.db'}", *options, environment=secret) as running:
        yield Secured(running, home, written(running, home))


def written(running: Running, home: Path) -> dict[str, Any]:
    """By a writer's key, some rows too large for NATS."""
    command = [
        *(sys.executable, "-m", "tidelog.workload", "--nats", running.nats),
        *("--transactions", "60", "--rate", "100", "--seed", "7", "--linger", "30"),
        *("--large-row-bytes", "1500000", "--large-share", "0.02", "--dead-share", "0.05"),
        *flags(access(home, WRITER)),
        *flags(grpc_files(home / "certs", WRITER)),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr + running.logs()
    summary: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert summary["committed"] >= 30
    running.wait(summary["last_commit_ts"])
    return summary


def test_all_of_it_works_and_nothing_is_denied(secured: Secured) -> None:
    for verb, state in (("pause", "paused"), ("resume", "online")):
        done = secured.running.command(verb, "pump-1", "--json")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["state"] == state
    assert secured.running.command("feed", "list").returncode == 0
    assert secured.running.command("ddl", "main").returncode in (0, 2)
    told = asyncio.run(read(secured))
    assert told >= secured.workload["committed"]
    assert DENIED not in secured.nats_log()


def test_an_applications_own_key_counts_from_a_sighup_to_another(secured: Secured) -> None:
    name = f"{SUBSCRIBER}-billing"

    def tell(option: str) -> None:
        done = tidelog("keys", str(secured.home / "keys"), option, name)
        assert done.returncode == 0, done.stderr
        os.kill(secured.running.pid("nats"), signal.SIGHUP)

    def is_let_in() -> bool:
        try:
            return asyncio.run(read(secured, own)) > 0
        except Unauthenticated:
            return False

    tell("--add")
    own = msgspec.structs.replace(
        secured.access(SUBSCRIBER),
        nats_nkey_file=str(
            shutil.copy(keys.seed_file(secured.home / "keys", name), secured.home / "billing")
        ),
    )
    until(is_let_in, "the key that was added")
    tell("--remove")
    until(lambda: not is_let_in(), "the key that was removed to be refused")


async def read(secured: Secured, files: NatsAccess | None = None) -> int:
    """How many transactions a registered application gets, by a subscriber's key."""
    files = files or secured.access(SUBSCRIBER)
    options = {name: getattr(files, name) for name in NatsAccess.__struct_fields__}
    count = 0
    async with library.subscribe(
        "main", nats_url=secured.running.nats, start="beginning", consumer="test", **options
    ) as changes:
        async for _ in changes.until(secured.workload["last_commit_ts"]):
            count += 1
    return count


def test_what_is_served_and_stored_has_its_cells(secured: Secured) -> None:
    """By what services themselves say; a subject that nobody thought of would show."""
    served, streams = asyncio.run(found(secured))
    node = escape("node.1")
    known = {".".join(node if "=" in t else t for t in c.subject.split(".")) for c in CELLS}
    missing = set()
    for subject in served:
        tokens = subject.split(".")
        if len(tokens) == 5:
            tokens[3] = node
        if ".".join(tokens) not in known:
            missing.add(subject)
    assert missing == set()
    assert len(served) >= 15
    with_cells = {cell.subject.split(".")[-1] for cell in CELLS if "STREAM.INFO" in cell.subject}
    assert streams <= with_cells


async def found(secured: Secured) -> tuple[set[str], set[str]]:
    """Subjects of all micro services, and the streams there are."""
    bus = await NatsBus.connect(secured.running.nats, timeout_s=10, access=secured.access(ADMIN))
    try:
        served: set[str] = set()
        for kind in ("registry", "pump", "drainer", "applier"):
            answer = await bus.request(f"$SRV.INFO.tidelog-{kind}", b"", timeout_s=5)
            served |= {e["subject"] for e in json.loads(answer.data)["endpoints"]}
        names = json.loads(await bus.api("STREAM.NAMES"))["streams"]
        return served, set(names)
    finally:
        await bus.close()


def test_an_order_needs_an_operators_key(secured: Secured) -> None:
    identities = WRITER, SUBSCRIBER, MONITOR
    with ThreadPoolExecutor() as pool:
        ordered = pool.map(lambda i: tidelog("pause", "pump-1", *secured.flags(i)), identities)
    for identity, done in zip(identities, ordered, strict=True):
        assert done.returncode == 1
        forbidden = "Forbidden: tidelog-cli may not publish to tidelog.default.registry.state"
        assert forbidden in done.stderr
        assert f"/keys/{identity}/nkey" in done.stderr


def refusal(stderr: str) -> str:
    return beside_waiting(stderr)[0].split(":")[0]


def test_without_a_key_or_certificate_nobody_gets_in(secured: Secured) -> None:
    nobody = tidelog("status", "--nats", secured.running.nats)
    assert (nobody.returncode, refusal(nobody.stderr)) == (1, "Untrusted")
    tls = flags(nats_access(secured.home / "certs", ADMIN))
    keyless = tidelog("status", "--nats", secured.running.nats, *tls)
    assert (keyless.returncode, refusal(keyless.stderr)) == (1, "Unauthenticated")
    assert "--nats-nkey-file" in keyless.stderr


# -- secrets --------------------------------------------------------------------------------------


def canaries(home: Path) -> list[str]:
    """All that may show nowhere: seeds, keys of certificates line by line, tokens, passwords."""
    found = [CANARY]
    found += [path.read_text().strip() for path in (home / "keys").glob("*/nkey")]
    for path in (home / "certs").rglob("*key.pem"):
        found += [line for line in path.read_text().splitlines() if "PRIVATE KEY" not in line]
    return found


def failing(secured: Secured) -> str:
    """What services and commands say that can't begin: passwords in every place they may stand."""
    dead = f"127.0.0.1:{free_port()}"
    wrongs = (
        [f"--downstream=mysql://me:{CANARY}@{dead}/"],
        [f"--downstream=mysql://me@{dead}/?password={CANARY}"],
        [f"--downstream=odd://me:{CANARY}@{dead}/"],
        ["--downstream=blackhole:", f"--nats-url=nats://me:{CANARY}@{dead}"],
        ["--downstream=blackhole:", f"--nats-nkey-file={secured.home / 'certs' / 'ca-key.pem'}"],
    )
    with ThreadPoolExecutor() as pool:
        said = list(pool.map(lambda n: failed(secured, n, wrongs[n]), range(len(wrongs))))
    url = f"mysql://me:{CANARY}@{dead}/"
    done = tidelog("verify", "--dir", str(secured.running.directory), "--source", url)
    return "".join(said) + done.stdout + done.stderr


def failed(secured: Secured, number: int, wrong: list[str]) -> str:
    """Until it ends, or says for whom it waits."""
    home = secured.home / f"failing-{number}"
    said = secured.home / f"failing-{number}.log"
    command = [
        *(sys.executable, "-m", "tidelog_applier", "--feed", "main"),
        *("--data-dir", str(home), "--log-level", "debug", "--nats-url", secured.running.nats),
        *flags(secured.access("applier")),
        *wrong,
    ]
    with said.open("wb") as sink:
        process = subprocess.Popen(command, stdout=sink, stderr=sink)
    try:
        until(
            lambda: process.poll() is not None or any(w in said.read_text() for w in WAITS),
            said.read_text,
        )
    finally:
        process.kill()
        process.wait(20)
    return said.read_text()


def pages(secured: Secured) -> str:
    """/status and /metrics of all, and what a wrong token is answered."""
    state = json.loads((secured.running.directory / "tidelog.json").read_text())
    shown = ""
    for url in state["http"].values():
        for path in ("status", "metrics"):
            with urllib.request.urlopen(f"{url}/{path}", timeout=10) as answer:
                shown += answer.read().decode()
    return shown


def test_no_secret_shows_anywhere(secured: Secured) -> None:
    logs = [*secured.running.directory.glob("*/log"), secured.running.directory / "nats/nats.log"]
    outputs = {str(path): path.read_text(errors="replace") for path in logs}
    outputs["pages"] = pages(secured)
    outputs["status"] = secured.running.command("status", "--json").stdout
    outputs["keys"] = tidelog("keys", str(secured.home / "keys"), "--json").stdout
    outputs["failing"] = failing(secured)
    outputs["topology file"] = (secured.running.directory / "tidelog.json").read_text()
    config = ApplierConfig(feed="main", downstream="blackhole:", downstream_password=Secret(CANARY))
    outputs["repr"] = repr(config) + repr(ServiceConfig(admin_token=Secret(CANARY)))
    assert all(outputs.values()), [name for name, text in outputs.items() if not text]
    for place in ("failing", "pages"):
        assert "***" in outputs[place], "a secret stood there"
    secret = canaries(secured.home)
    assert len(secret) > 30
    hits = {(name, s[:6]) for name, text in outputs.items() for s in secret if s in text}
    assert hits == set()
