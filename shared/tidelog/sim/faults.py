"""What a simulated world does to its nodes, and how unkind its network is: drawn per seed."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum


class Injected(StrEnum):
    """What was done to a node, counted where it is done: a run that is to prove something has met
    each of them."""

    LOST = "message lost"
    DUPLICATED = "message duplicated"
    DELAYED = "message delayed"
    UNKNOWN = "answer of an append lost"
    LATE = "call that arrived after its connection broke"
    CUT = "node cut off"
    SERVER_DOWN = "server down"
    STORE_DELETED = "server's store deleted"
    ROLLED_BACK = "server's store rolled back"
    STREAM_FULL = "append to a full stream"
    POWER_LOSS = "power loss"
    LOST_WRITE = "unsynced write lost"
    TORN_WRITE = "unsynced write torn"
    LOST_ENTRY = "unsynced directory entry lost"
    LOST_INDEX = "last writes of an index lost"
    IO_ERROR = "input/output error"
    SHORT_WRITE = "write that failed half way"
    LOST_PAGES = "pages forgotten by a failed sync"
    DISK_FULL = "no space left"
    STALLED = "disk stalled"
    BROKEN_INDEX = "index failed"
    CLOCK_JUMP = "clock jumped"
    REFUSED = "database refused"
    BROKEN_COMMIT = "answer of a database lost"


@dataclass
class NetFaults:
    """Seconds and chances per message. `unknown`: an append's answer is lost after or before it
    happened. `late`: of the calls cut off by a lost connection, how many still arrive later."""

    delay_s: float = 0.0003
    tail_chance: float = 0.01
    tail_s: float = 0.02
    loss: float = 0.0
    duplicate: float = 0.0
    unknown: float = 0.0
    late: float = 0.5

    def delay(self, rng: random.Random) -> float:
        seconds = rng.random() * 2 * self.delay_s
        if rng.random() < self.tail_chance:
            seconds += rng.random() * self.tail_s
        return seconds

    def heal(self) -> None:
        self.loss = self.duplicate = self.unknown = 0.0
        self.tail_chance = 0.0
