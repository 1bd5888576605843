"""The first data directory of a private MariaDB: made once on a machine, copied for each server."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from hashlib import sha256
from pathlib import Path


def install(directory: Path) -> None:
    """`directory` is then what mariadb-install-db makes, which takes 20 times as long as a copy."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    command = ["cp", "-a", "--sparse=always", str(_made_once()), str(directory)]
    subprocess.run(command, check=True)


def _made_once() -> Path:
    """Another release of the server has one of its own."""
    program = Path(shutil.which("mariadbd") or "/usr/sbin/mariadbd")
    release = f"{program} {program.stat().st_size} {program.stat().st_mtime_ns}"
    name = f"tidelog-tests-{os.getuid()}-mariadb-{sha256(release.encode()).hexdigest()[:16]}"
    made = Path(tempfile.gettempdir()) / name
    if not made.is_dir():
        with tempfile.TemporaryDirectory(prefix="mariadb-install-") as beside:
            _install(Path(beside) / "data", Path(beside))
            with contextlib.suppress(OSError):  # another process was here first: its is as good
                (Path(beside) / "data").rename(made)
    return made


def _install(data: Path, tmp: Path) -> None:
    command = [
        "mariadb-install-db",
        "--no-defaults",
        f"--datadir={data}",
        "--auth-root-authentication-method=normal",
        "--skip-test-db",
        # A server that starts removes what looks like its temporary tables: never another's.
        f"--tmpdir={tmp}",
    ]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        raise RuntimeError(f"mariadb-install-db failed: {done.stderr.decode()[-2000:]}")
