"""The machine's randomness."""

from __future__ import annotations

import random
import secrets


class RealRng:
    def random(self) -> float:
        return random.random()

    def randbelow(self, bound: int) -> int:
        return random.randrange(bound)

    def token(self) -> str:
        """16 hexadecimal digits from the operating system."""
        return secrets.token_hex(8)
