"""`DIR/tidelog.json`: where a running topology is found by every other command."""

from __future__ import annotations

from pathlib import Path

import msgspec

from tidelog.errors import ConfigError, Unavailable

NAME = "tidelog.json"
FEED = "main"
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


def read(directory: Path) -> TopologyState | None:
    """None if nothing was ever started there. Raises ConfigError if the file is not ours."""
    path = directory / NAME
    if not path.exists():
        return None
    try:
        return msgspec.json.decode(path.read_bytes(), type=TopologyState)
    except msgspec.DecodeError as error:
        raise ConfigError(f"{path} is not a topology file: {error}") from error


def write(directory: Path, state: TopologyState) -> None:
    """Replace the file at once, so that a reader never sees half of it."""
    path = directory / NAME
    draft = path.with_suffix(".part")
    draft.write_bytes(msgspec.json.format(msgspec.json.encode(state), indent=1) + b"\n")
    draft.chmod(0o600)
    draft.replace(path)


def find(directory: Path | None, nats: str, cluster: str, feed: str) -> TopologyState:
    """The topology a command is about: of `--dir`, or at `--nats`. `feed`: another one than its
    own; "" = that."""
    if nats:
        return TopologyState(nats=nats, cluster=cluster, feed=feed or FEED)
    here = directory or Path("tidelog-data")
    state = read(here)
    if state is None:
        raise Unavailable(
            f"no topology was started in {here}",
            hint="start one with `tidelog up --dir DIR`, or name one with --dir or --nats",
        )
    return msgspec.structs.replace(state, feed=feed or state.feed)
