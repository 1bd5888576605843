"""How unkind the simulated network is: drawn per seed, changed at run time."""

from __future__ import annotations

import random
from dataclasses import dataclass


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
