"""On what was measured: the machine, the versions, and whether somebody else used it, too."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from bench.drain import COMPILED
from tidelog.real.nats_server import server_binary

PACKAGES = ("nats-py", "grpcio", "protobuf", "msgspec", "uvloop", "rocksdict", "crc32c", "aiomysql")
"""Those whose speed is part of ours."""
LOOK_S = 2.0
IDLE = 0.15
"""So many cores busy are an idle machine. The load average would remember what built the wheel."""
TICKS = os.sysconf("SC_CLK_TCK")
ROOT = Path(__file__).parent.parent


class About(msgspec.Struct, frozen=True):
    """`memory` in bytes. `load`: the average of the minute before the start; `others`: cores that
    were busy just before a run, at most. `commit`: empty where there is no git."""

    date: str
    commit: str
    cores: int
    processor: str
    memory: int
    disk: str
    kernel: str
    load: float
    others: float
    compiled: bool
    versions: dict[str, str]

    @property
    def busy(self) -> bool:
        return self.others > IDLE


def about(directory: Path) -> About:
    """Now. `directory`: where the servers' data will be."""
    return About(
        date=datetime.now(UTC).strftime("%Y-%m-%d"),
        commit=_commit(),
        cores=os.cpu_count() or 1,
        processor=_field(Path("/proc/cpuinfo"), "model name"),
        memory=1024 * int(_field(Path("/proc/meminfo"), "MemTotal").split()[0] or 0),
        disk=" on ".join(_said("findmnt", "-no", "FSTYPE,SOURCE", "-T", str(directory)).split()),
        kernel=f"{platform.system()} {platform.release()}",
        load=os.getloadavg()[0],
        others=busy_cores(),
        compiled=COMPILED.is_dir(),
        versions=_versions(),
    )


def busy_cores() -> float:
    """Of the machine, over two seconds; 0 where the system doesn't tell."""
    before = _busy_seconds()
    time.sleep(LOOK_S)  # over some time: it is a rate
    return (_busy_seconds() - before) / LOOK_S


def _busy_seconds() -> float:
    """User, nice, system, interrupts and what the host took, since it was booted."""
    stat = Path("/proc/stat")
    if not stat.exists():
        return 0.0
    user, nice, system, _idle, _wait, irq, soft, steal = map(
        int, stat.read_text().splitlines()[0].split()[1:9]
    )
    return (user + nice + system + irq + soft + steal) / TICKS


def _field(path: Path, name: str) -> str:
    """Of a file of lines `name : text`; "0" where the system has none."""
    lines = path.read_text().splitlines() if path.exists() else []
    found = (line.partition(":")[2].strip() for line in lines if line.startswith(name))
    return next(found, "0")


def _said(*command: str) -> str:
    """What it prints; empty if it can't be run."""
    if shutil.which(command[0]) is None:
        return ""
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    return done.stdout.strip()


def _commit() -> str:
    commit = _said("git", "rev-parse", "--short", "HEAD")
    changed = _said("git", "status", "--porcelain", "--untracked-files=no")
    return f"{commit}, changed" if changed else commit


def _versions() -> dict[str, str]:
    mariadb = _said("mariadbd", "--version").partition("Ver ")[2].split(" ")[0]
    found = {
        "Python": platform.python_version(),
        "nats-server": _said(server_binary(), "--version").rpartition("v")[2],
        "MariaDB": mariadb,
    }
    return {name: text for name, text in found.items() if text} | {
        name: importlib.metadata.version(name) for name in PACKAGES
    }
