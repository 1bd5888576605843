"""The lives of a feed's Drainers: each has an epoch above all before it (design section 5).

`drainer.json` of a Drainer's directory keeps what it knows of its own: the epoch it reached, and
since which life nobody else published. What it noted of its sources is true only since then.
"""

from __future__ import annotations

import msgspec

from tidelog.failpoints import hit
from tidelog.ports import Ports
from tidelog.sealed import read_sealed, seal
from tidelog_drainer.config import DrainerConfig

EPOCH_FILE = "drainer.json"
UNREADABLE = "delete it: the feed's stream tells the epoch that was reached"


class Epoch(msgspec.Struct, frozen=True, order=True):
    """Rises with every life of a feed's publisher; the node tells apart two that rose alike."""

    number: int
    node: str = ""

    @property
    def text(self) -> str:
        return f"{self.number}:{self.node}"


class Risen(msgspec.Struct, frozen=True):
    """What `drainer.json` holds: the epoch, and the number of the first life of a chain: each of
    the later ones found that nobody but this node had written to the stream since. 0 = unknown.
    `apart`: in front of this life another Drainer was seen to publish; 0 = none was seen."""

    number: int
    node: str = ""
    chain: int = 0
    apart: int = 0


async def rise(config: DrainerConfig, ports: Ports, above: int = 0, own: int = 0) -> Epoch:
    """A new epoch, above the one stored here and `above`; durable when it returns. `own`: this life
    has risen to it before. A chain that nobody knows of, or that this life began, begins with it.

    Raises Corrupt."""
    stored = _stored(ports)
    epoch = Epoch(max(above, stored.number) + 1, config.node)
    chain = epoch.number if stored.chain == own else stored.chain
    await _store(ports, Risen(epoch.number, epoch.node, chain, stored.apart))
    return epoch


async def chained(config: DrainerConfig, ports: Ports, epoch: Epoch, newest: str) -> Risen:
    """The chain that this life belongs to, where `newest` wrote the stream's newest message ("" =
    it has none). Durable before this life writes anything to the stream: else the next one took
    what it writes for a proof that the chain was never broken. Raises Corrupt."""
    stored = _stored(ports)
    apart = epoch.number if newest not in ("", config.node) else stored.apart
    chain = epoch.number
    if newest == config.node and stored.chain >= apart:
        chain = stored.chain if stored.chain != epoch.number else 0
    risen = Risen(epoch.number, config.node, chain, apart)
    if risen != stored:
        await _store(ports, risen)
    return risen


async def parted(ports: Ports) -> None:
    """Another Drainer publishes: what this one's earlier lives noted is not true of that, also
    where the stream that tells so is lost. Durable when it returns. Raises Corrupt."""
    stored = _stored(ports)
    if stored.chain >= stored.apart:
        await _store(ports, msgspec.structs.replace(stored, apart=stored.number))


def _stored(ports: Ports) -> Risen:
    """Raises Corrupt."""
    return read_sealed(ports.disk, EPOCH_FILE, Risen, UNREADABLE) or Risen(0)


async def _store(ports: Ports, risen: Risen) -> None:
    hit("drainer.epoch.before_write")
    await ports.disk.write_file(EPOCH_FILE, seal(risen))
    hit("drainer.epoch.risen")
