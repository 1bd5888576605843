"""The profiles beside `demo`: bulk work on Spark, Prometheus, a Drainer that takes over."""

from __future__ import annotations

import json
import time
import urllib.request
from collections import Counter
from typing import Any

from tests.compose.holdings import check_equal, commits
from tests.compose.stack import Stack, docker, until

PROFILES = ("ha", "spark", "observe")
TARGETS = {"registry": 1, "pump": 2, "drainer": 2, "applier": 1, "backfill": 1}
JOB_S = 240
"""A JVM's start, on a machine that has much to do."""
WATCHED_S = 90
GONE = "TidelogServiceGone"
SOURCE = "mysql://tidelog@mariadb:3306/?password_file=/run/secrets/password"
COPIED = "shop"
"""One database of the workload's: each table is a task, and these have two cores."""
TABLES = f"""SELECT concat('SELECT count(*) FROM `{COPIED}`.`', table_name, '`')
FROM information_schema.tables WHERE table_schema = '{COPIED}'"""


def check_profiles(topology: Stack) -> None:
    """Without a workload at first: so it is known what there is to be copied."""
    topology.profiles += PROFILES
    seconds = topology.up("--scale", "workload=0")
    print(f"up with {', '.join(PROFILES)}: {seconds:.0f} s")
    began = time.monotonic()
    job = submitted(topology)
    until(
        lambda: watched(topology) == TARGETS, lambda: f"Prometheus: {targets(topology)}", WATCHED_S
    )
    until(lambda: judged(topology) == {"ok"}, "the first look at each alert", WATCHED_S)
    copied(topology, job)
    print(f"a copy by Spark, Prometheus meanwhile: {time.monotonic() - began:.0f} s")
    began = time.monotonic()
    topology.up("--no-recreate")
    taken_over(topology)
    topology.compose("stop", "workload")
    check_equal(topology)
    print(f"a Drainer taken over: {time.monotonic() - began:.0f} s")
    missed(topology)


def submitted(topology: Stack) -> str:
    """The job's id."""
    target = ("--parquet", "/var/lib/tidelog/copy")
    chosen = ("--tables", f"{COPIED}.*")
    job = topology.tidelog("backfill", "--source", SOURCE, *chosen, *target, "--detach")
    return str(job["id"])


def copied(topology: Stack, job: str) -> None:
    """All rows that these tables have in MariaDB, once more, as files."""

    def state() -> Any:
        return topology.tidelog("jobs", "show", job)

    until(lambda: state()["state"] not in ("queued", "running"), lambda: f"{state()}", JOB_S)
    ended = state()
    assert ended["state"] == "done", ended
    counts = rows(topology)
    assert ended["report"]["tables"] == len(counts)
    assert ended["report"]["rows"] == sum(counts) > 0
    listed = topology.run("backfill", "find", "/var/lib/tidelog/copy", "-name", "*.parquet")
    assert len({line.rpartition("/")[0] for line in listed.splitlines()}) == len(counts)
    # What its JVM's libraries load from there.
    topology.run("backfill", "sh", "-c", "cp /bin/true /tmp/runs && /tmp/runs && rm /tmp/runs")


def rows(topology: Stack) -> list[int]:
    """Of each of the tables in MariaDB."""
    counts = " UNION ALL ".join(sql(topology, TABLES))
    return [int(line) for line in sql(topology, counts)]


def sql(topology: Stack, query: str) -> list[str]:
    return topology.run("mariadb", "sql", "-BN", "--execute", query).splitlines()


def watched(topology: Stack) -> dict[str, int]:
    """How many of each job's targets answer; more than there should be are none."""
    return dict(Counter(job for job, health in targets(topology) if health == "up"))


def targets(topology: Stack) -> list[tuple[str, str]]:
    found = _prometheus(topology, "targets")["activeTargets"]
    return [(one["labels"]["job"], one["health"]) for one in found]


def judged(topology: Stack) -> set[str]:
    """What becomes of the alerts' expressions."""
    groups = _prometheus(topology, "rules")["groups"]
    return {rule["health"] for group in groups for rule in group["rules"]}


def _prometheus(topology: Stack, what: str) -> Any:
    with urllib.request.urlopen(f"{topology.prometheus}/api/v1/{what}", timeout=10) as answer:
        return json.load(answer)["data"]


def missed(topology: Stack) -> None:
    """A container that is stopped has no name any more, so Prometheus has nobody to ask."""
    began = time.monotonic()
    topology.compose("stop", "registry")
    until(lambda: GONE in alarms(topology), lambda: f"{GONE}: {targets(topology)}", WATCHED_S)
    topology.compose("start", "registry")
    topology.well("registry")
    until(lambda: GONE not in alarms(topology), f"the end of {GONE}", WATCHED_S)
    print(f"a registry missed: {time.monotonic() - began:.0f} s")


def alarms(topology: Stack) -> set[str]:
    """Firing, or about to."""
    return {one["labels"]["alertname"] for one in _prometheus(topology, "alerts")["alerts"]}


def taken_over(topology: Stack) -> None:
    """The leading Drainer is killed under load and stays away; the other one publishes; started
    again, the first one stands by."""
    leader, standby = sorted(drainers(topology).items(), key=lambda one: one[1])
    assert not leader[1]
    assert standby[1]
    service = "drainer-standby" if leader[0] == "drainer-standby" else "drainer"
    killed = topology.one(service)
    docker("kill", killed.id)
    commits(topology, 50)
    until(lambda: drainers(topology)[standby[0]] == "", "the standby to lead", WATCHED_S)
    docker("start", killed.id)
    topology.well(service)
    until(lambda: drainers(topology)[leader[0]] != "", "the other one to stand by", WATCHED_S)
    print(f"{standby[0]} took over from {leader[0]}")


def drainers(topology: Stack) -> dict[str, str]:
    """By name for whom it stands by; empty for who leads."""
    found = topology.tidelog("drainers")
    return {node["nodeId"]: node["detail"].get("standby", "") for node in found}
