"""What the images are built from, without building them: pins, Dockerfiles, docker-compose.yml."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PINS = ROOT / "requirements"
SERVICES = ("registry", "pump", "drainer", "applier", "backfill")
EXTRAS = {name: (name,) for name in SERVICES} | {"cli": ("cli", "writer")}
_PIN = re.compile(r"^([a-z0-9-]+)==(\S+?)(?: ; .*)? \\$", re.MULTILINE)
DOCKERFILES = sorted(
    path for room in ("services/*", "cli", "deploy/*") for path in ROOT.glob(f"{room}/Dockerfile")
)
SAME_FROM, SAME_TO = "# The wheel of all packages", "# End of what is the same."


def pins(name: str) -> dict[str, str]:
    text = (PINS / f"{name}.txt").read_text()
    found = dict(_PIN.findall(text))
    assert len(found) == len(re.findall(r"^[a-z0-9-]+==", text, re.MULTILINE)), name
    assert text.count("--hash=sha256:") >= len(found), f"{name}: a pin without a hash"
    return found


@pytest.mark.parametrize("name", [*EXTRAS, "nats", "wheel"])
def test_an_image_has_the_versions_that_the_tests_have(name: str) -> None:
    tested = pins("build") | pins("dev") | pins("backfill") | pins("runtime")
    assert {pin: tested.get(pin) for pin in pins(name)} == pins(name), "make requirements"


@pytest.mark.parametrize("name", EXTRAS)
def test_an_image_has_what_its_extras_name(name: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = list(project["dependencies"])
    for extra in EXTRAS[name]:
        wanted += project["optional-dependencies"][extra]
    names = {re.split(r"[^A-Za-z0-9-]", one)[0] for one in wanted}
    assert names <= pins(name).keys(), "make requirements"


def test_an_image_has_only_what_its_service_runs() -> None:
    assert "pyspark" in pins("backfill")
    for name in set(EXTRAS) - {"backfill"}:
        assert "pyspark" not in pins(name)
    assert "rocksdict" not in pins("drainer")
    assert "aiomysql" not in pins("registry")


def test_every_service_has_a_dockerfile_beside_it() -> None:
    beside = {path.parent.name for path in DOCKERFILES}
    assert beside >= {*SERVICES, "cli", "nats", "mariadb", "prometheus"}


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.parent.name)
def test_a_dockerfile_needs_no_registry_but_for_its_base_and_no_privilege(path: Path) -> None:
    text = path.read_text()
    bases = re.findall(r"^FROM (\S+)", text, re.MULTILINE)
    assert set(bases) == {"python:3.11-slim-bookworm"}
    assert "# syntax" not in text
    last = text.rpartition("FROM ")[2]
    assert re.search(r"^USER 10001:10001$", last, re.MULTILINE)
    assert re.search(r'^ENTRYPOINT \["', last, re.MULTILINE), "exec form: SIGTERM reaches it"
    assert ("HEALTHCHECK" in last) == (path.parent.name != "cli")
    assert ("--timeout=15s" in last) == (path.parent.name != "cli"), "slow is not ill"
    assert ("openjdk" in text) == (path.parent.name == "backfill")


class Overriding(yaml.SafeLoader):
    """With compose's own tags: what stands behind one is left out."""


Overriding.add_multi_constructor("!", lambda *_: None)


@pytest.mark.parametrize("name", ["nats", "mariadb", "prometheus"])
def test_an_official_image_is_looked_at_as_often_and_as_long_as_ours(name: str) -> None:
    text = (ROOT / "deploy" / "compose.images.yml").read_text()
    look = yaml.load(text, Overriding)["services"][name]["healthcheck"]
    ours = (ROOT / "deploy" / name / "Dockerfile").read_text().partition("HEALTHCHECK ")[2]
    flags = {flag.replace("-", "_"): value for flag, value in re.findall(r"--(\S+)=(\w+)", ours)}
    assert len(flags) == 4
    assert {key: str(value) for key, value in look.items() if key != "test"} == flags


def test_one_build_makes_the_wheel_for_all() -> None:
    """Other words, and each image would compile a wheel of its own."""
    texts = [p.read_text() for p in DOCKERFILES if p.parents[1].name != "deploy"]
    shared = {text[text.index(SAME_FROM) : text.index(SAME_TO)] for text in texts}
    assert len(texts) == len(SERVICES) + 1
    assert len(shared) == 1


def services() -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())[
        "services"
    ]
    return found


@pytest.mark.parametrize("name", services())
def test_a_container_has_bounds_and_no_privilege(name: str) -> None:
    service = services()[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["mem_limit"]
    assert service["pids_limit"]
    assert service["cpus"] in (1, "${TIDELOG_CPUS:-2}")
    assert service["restart"] in ("unless-stopped", "no")
    assert service["restart"] == "no" or service["stop_grace_period"]
    ports = service.get("ports", [])
    assert isinstance(ports, list)
    assert all(port.startswith("127.0.0.1:") for port in ports)


class FirstStart:
    """deploy/mariadb/start with a data directory of the test's, and with programs that only say
    that they were called."""

    def __init__(self, directory: Path) -> None:
        self.data, self._programs = directory / "data", directory / "bin"
        self.data.mkdir()
        self._programs.mkdir()
        text = (ROOT / "deploy" / "mariadb" / "start").read_text()
        (directory / "start").write_text(
            text.replace("/tmp/", f"{directory}/").replace("/var/lib/mysql", str(self.data))
        )
        (directory / "password").write_text("secret\n")
        self._command = ["sh", str(directory / "start")]
        self._environment = {
            "PATH": f"{self._programs}:/usr/bin:/bin",
            "PASSWORD_FILE": str(directory / "password"),
        }

    def run(self, install: str = "exit 0") -> subprocess.CompletedProcess[str]:
        self._program("mariadb-install-db", f"touch {self.data}/ibdata1\n{install}")
        self._program("mariadbd", "echo it runs")
        return subprocess.run(
            self._command, env=self._environment, capture_output=True, text=True, check=False
        )

    def _program(self, name: str, text: str) -> None:
        path = self._programs / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def files(self) -> set[str]:
        return {path.name for path in self.data.iterdir()}


def test_a_first_start_of_mariadb_that_was_killed_begins_anew(tmp_path: Path) -> None:
    start = FirstStart(tmp_path)
    assert start.run("touch $(dirname $0)/../data/half; kill -9 $PPID").returncode
    assert start.files() == {".making", "ibdata1", "half"}
    assert start.run().stdout == "it runs\n"
    assert start.files() == {".made", "ibdata1"}
    (start.data / "rows").touch()
    assert start.run("exit 1").stdout == "it runs\n"
    assert "rows" in start.files()


def test_mariadb_touches_no_data_that_another_image_made(tmp_path: Path) -> None:
    start = FirstStart(tmp_path)
    (start.data / "shop").mkdir()
    (start.data / "ibdata1").write_text("rows")
    refused = start.run()
    assert refused.returncode == 78
    assert "another image" in refused.stderr
    assert start.files() == {"shop", "ibdata1"}
    assert (start.data / "ibdata1").read_text() == "rows"


@pytest.mark.parametrize(
    ("password", "quoted"),
    [("a1_-", "'a1_-'"), (r"it's \o/ $HOME `id` ; --", r"'it\'s \\o/ $HOME `id` ; --'")],
)
def test_mariadb_takes_any_password(tmp_path: Path, password: str, quoted: str) -> None:
    """Of a database elsewhere, too, it stands in that file, and the Applier waits for this one."""
    start = FirstStart(tmp_path)
    (tmp_path / "password").write_text(f"{password}\n")
    assert start.run().stdout == "it runs\n"
    said = (tmp_path / "init.sql").read_text().splitlines()
    assert said[:2] == [
        f"CREATE USER IF NOT EXISTS 'tidelog'@'%' IDENTIFIED BY {quoted};",
        f"ALTER USER 'tidelog'@'%' IDENTIFIED BY {quoted};",
    ]


@pytest.mark.parametrize("password", ["", "two\nlines"])
def test_mariadb_refuses_what_can_be_no_password(tmp_path: Path, password: str) -> None:
    start = FirstStart(tmp_path)
    (tmp_path / "password").write_text(password)
    assert start.run().returncode == 78
    assert start.files() == set()
