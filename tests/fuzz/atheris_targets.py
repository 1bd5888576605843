"""The same surfaces under libFuzzer, which goes where the code leads it, for as long as one likes.

    pip install atheris          (a wheel for Python 3.11; CI does not install it)
    python -m tests.fuzz.atheris_targets write -- -runs=1000000 [CORPUS_DIRECTORY]

Targets: write (gRPC and NATS payloads), question (control subjects), applier (change consumers),
relay (stored bytes), config (TOML). It begins with the seeds of the fuzzer; what breaks something
is kept by libFuzzer, and is fed again by `python -m tests.fuzz.run --only SURFACE --replay FILE`.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

TARGETS = {
    "write": "write",
    "question": "question",
    "applier": "applier",
    "relay": "relay",
    "config": "config file",
}
"""Each by the name of its surface."""
TRACED = ["tidelog", "tidelog_pump", "tidelog_applier", "tidelog_registry", "tidelog_drainer"]
"""Packages whose branches lead it."""


def target(name: str) -> tuple[Callable[[bytes], None], list[bytes]]:
    """What one input does, and the inputs to begin with. Raises what is a bug."""
    from tests.fuzz.run import surfaces

    (surface,) = (one for one in surfaces() if one.name == TARGETS[name])

    def feed(data: bytes) -> None:
        surface.outcome(data)

    return feed, list(surface.seeds)


def main(argv: list[str]) -> None:
    name, rest = argv[0], [word for word in argv[1:] if word != "--"]
    atheris = import_module("atheris")

    with atheris.instrument_imports(include=TRACED):
        feed, seeds = target(name)
    with tempfile.TemporaryDirectory(prefix="atheris-") as begun:
        for number, seed in enumerate(seeds):
            (Path(begun) / f"{number:04d}").write_bytes(seed)
        atheris.Setup([name, "-timeout=5", "-rss_limit_mb=2048", *rest, begun], feed)
        atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1:])
