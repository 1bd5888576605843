"""What may become of a network link: toxiproxy's eight toxics. Pure.

Sizes in bytes, times in seconds. What is on a link is a `Toxic`; `proxy.py` does it to the bytes.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import Enum, Flag, auto


class Kind(Enum):
    """`CUTS`: those that end connections, which have to be seen to do so."""

    LATENCY = "latency"
    """Each byte comes later; the ones behind it don't wait for that."""
    DOWN = "down"
    """Connections end, new ones are refused."""
    BANDWIDTH = "bandwidth"
    SLOW_CLOSE = "slow_close"
    """The far side closes; the near one hears of it later, and what it sends until then is lost."""
    TIMEOUT = "timeout"
    """Nothing comes through; at the end the connections are closed."""
    RESET_PEER = "reset_peer"
    """A connection ends by RST, after so long; a new one, too."""
    SLICER = "slicer"
    """Bytes come in small slices, with a pause after each."""
    LIMIT_DATA = "limit_data"
    """A connection that has carried so many bytes is closed; a new one, too."""


CUTS = frozenset({Kind.DOWN, Kind.SLOW_CLOSE, Kind.TIMEOUT, Kind.RESET_PEER, Kind.LIMIT_DATA})


class Side(Flag):
    """Which way the bytes go that meet a toxic; `UP`: from who connected."""

    UP = auto()
    DOWN = auto()
    BOTH = UP | DOWN


@dataclass(frozen=True)
class Toxic:
    """`amount` is the kind's one number: the delay of LATENCY, SLOW_CLOSE and RESET_PEER (seconds),
    the rate of BANDWIDTH (bytes a second), the mean slice of SLICER and the share of each
    connection under LIMIT_DATA (bytes). `jitter_s`: what LATENCY adds at most."""

    kind: Kind
    amount: float = 0.0
    jitter_s: float = 0.0


SLICE_PAUSE_S = 0.0005


def drawn(kind: Kind, rng: random.Random) -> Toxic:
    """One as a bad network has it."""
    match kind:
        case Kind.LATENCY:
            return Toxic(kind, rng.uniform(0.02, 0.3), jitter_s=0.05)
        case Kind.BANDWIDTH:
            return Toxic(kind, rng.uniform(20e3, 100e3))
        case Kind.SLOW_CLOSE:
            return Toxic(kind, rng.uniform(0.3, 1.5))
        case Kind.RESET_PEER:
            return Toxic(kind, rng.uniform(0.0, 0.5))
        case Kind.SLICER:
            return Toxic(kind, rng.uniform(16, 256))
        case Kind.LIMIT_DATA:
            return Toxic(kind, rng.uniform(2e3, 50e3))
        case Kind.DOWN | Kind.TIMEOUT:
            return Toxic(kind)


@dataclass
class Met:
    """What a toxic did: bytes that were held up, cut small or swallowed, connections it ended."""

    bytes: int = 0
    cuts: int = 0

    def add(self, other: Met) -> None:
        self.bytes += other.bytes
        self.cuts += other.cuts

    def touched(self, kind: Kind) -> bool:
        """Whether one of that kind did its work. A connection that was cut had carried bytes:
        idle ones are not counted."""
        if kind in CUTS:
            return self.cuts > 0
        return self.bytes > 0
