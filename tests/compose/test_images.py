"""The images: who runs in them, what is in them, what is not."""

from __future__ import annotations

import json

import pytest

from tests.compose.stack import ROOT, docker, stack

OURS = ("registry", "pump", "drainer", "applier", "backfill", "cli")
IMAGES = (*OURS, "nats", "mariadb", "prometheus")
ABSENT = ("gcc", "cc", "git", "curl")


@pytest.mark.timeout(900)
def test_images_are_small_and_unprivileged() -> None:
    with stack("tidelog-test", "*") as topology:
        topology.compose("build", timeout_s=900)
    for name in IMAGES:
        told = json.loads(docker("image", "inspect", f"tidelog/{name}"))[0]
        print(f"tidelog/{name}: {told['Size'] >> 20} MiB")
        user = told["Config"]["User"].split(":")[0]
        assert user.isdigit(), f"{name} runs as {user!r}"
        assert int(user) > 0
        look = f"for c in java {' '.join(ABSENT)}; do command -v $c || true; done; id -u"
        run = ("run", "--rm", "--network", "none", "--read-only", "--entrypoint", "sh")
        *there, uid = docker(*run, f"tidelog/{name}", "-c", look).split()
        assert uid == user
        assert there == (["/usr/bin/java"] if name == "backfill" else []), name


@pytest.mark.parametrize("override", [(), ("deploy/compose.images.yml",)])
def test_compose_takes_its_files(override: tuple[str, ...]) -> None:
    files = [word for name in ("docker-compose.yml", *override) for word in ("--file", ROOT / name)]
    docker("compose", *map(str, files), "--profile", "*", "config", "--quiet")
