"""What takes input from outside, as the fuzzer and atheris call it, and what it may say."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.fuzz.mutation import Form, mutated
from tidelog.errors import TidelogError


@dataclass(frozen=True)
class Surface:
    """`feed` takes any bytes and returns what was understood, something comparable; of errors it
    raises typed ones only, where others are part of its contract they are in `besides`. `share`: of
    all inputs, relative to the other surfaces. `make`: an input, where `seeds` made wrong as `form`
    says are not it."""

    name: str
    form: Form
    seeds: Sequence[bytes]
    feed: Callable[[bytes], object]
    share: int = 1
    besides: tuple[type[Exception], ...] = ()
    make: Callable[[random.Random], bytes] | None = None

    def input(self, rng: random.Random) -> bytes:
        if self.make is not None:
            return self.make(rng)
        return mutated(rng, rng.choice(self.seeds), self.form, self.seeds)

    def outcome(self, data: bytes) -> object:
        """What was understood, or the class of the typed error. Any other exception is a bug."""
        allowed: tuple[type[Exception], ...] = (TidelogError, *self.besides)
        try:
            return self.feed(data)
        except allowed as error:
            return type(error)
