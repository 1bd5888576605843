"""`DIR/tidelog.json`: where a running topology is found by every other command."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from tidelog.errors import BadInput, ConfigError, Unavailable
from tidelog.real.disk import put
from tidelog.security.access import NatsAccess
from tidelog.unreadable import NOT_READABLE
from tidelog_cli.access import given

NAME = "tidelog.json"
HERE = Path("tidelog-data")
"""Where a topology is that is not named at all."""
CLUSTER, FEED = "default", "main"
"""Of a topology that is only known by its NATS URL."""


class PumpAt(msgspec.Struct, frozen=True):
    node: str
    grpc: str
    socket: str = ""
    """A unix socket of the same service; empty = none."""


class TopologyState(msgspec.Struct, frozen=True):
    """What `up` writes; addresses stay the same over restarts of the topology."""

    nats: str
    cluster: str
    feed: str
    cluster_id: int = 0
    pumps: list[PumpAt] = []
    http: dict[str, str] = {}
    pids: dict[str, int] = {}
    access: NatsAccess = NatsAccess()
    """By which an operator's commands get at its NATS server."""
    keys: str = ""
    certs: str = ""
    """Directories of the keys that its server lets in, and of its certificates; "" = none."""
    console: str = ""
    """The page that shows what goes on; its address stays the same over restarts, too."""


def read(directory: Path) -> TopologyState | None:
    """None if nothing was ever started there. Raises ConfigError if the file is not ours."""
    path = directory / NAME
    if not path.exists():
        return None
    try:
        return msgspec.json.decode(path.read_bytes(), type=TopologyState)
    except NOT_READABLE as error:
        raise ConfigError(f"{path} is not a topology file: {error}") from error


def write(directory: Path, state: TopologyState) -> None:
    """Raises DiskFull, IoFailed."""
    put(directory / NAME, msgspec.json.format(msgspec.json.encode(state), indent=1) + b"\n")


def find(directory: Path | None, nats: str, cluster: str, feed: str) -> TopologyState:
    """The topology a command is about: of `--dir`, at `--nats`, or where the variables
    TIDELOG_NATS_URL and TIDELOG_CLUSTER say (as in a container); `cluster` goes before the latter.
    `feed`: another one than its own; "" = that. Raises BadInput, ConfigError, Unavailable."""
    if directory is None and not nats:
        nats = os.environ.get("TIDELOG_NATS_URL", "")
        cluster = cluster or os.environ.get("TIDELOG_CLUSTER", "")
    if nats:
        cluster = cluster or CLUSTER
        return TopologyState(nats=nats, cluster=cluster, feed=feed or FEED, access=given())
    here = directory or HERE
    state = read(here)
    if state is None:
        raise Unavailable(
            f"no topology was started in {here}",
            hint="start one with `tidelog up --dir DIR`, or name one with --dir or --nats",
        )
    if cluster not in ("", state.cluster):
        raise BadInput(
            f"the topology in {here} is of the cluster {state.cluster}, not {cluster}",
            hint="leave out --cluster, or say by --nats where the other one is",
        )
    mine = given()
    access = state.access if mine == NatsAccess() else mine
    return msgspec.structs.replace(state, feed=feed or state.feed, access=access)
