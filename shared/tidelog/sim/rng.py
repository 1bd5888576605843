"""The seeded Rng port. Streams of randomness are named, so that one user never shifts another's."""

from __future__ import annotations

import random


class SimRng:
    def __init__(self, seed: int | str, name: str) -> None:
        # A text seed is hashed with SHA-512 by `random`: independent of PYTHONHASHSEED.
        self._random = random.Random(f"{seed}/{name}")

    def random(self) -> float:
        return self._random.random()

    def randbelow(self, bound: int) -> int:
        return self._random.randrange(bound)

    def token(self) -> str:
        return f"{self._random.getrandbits(88):022x}"
