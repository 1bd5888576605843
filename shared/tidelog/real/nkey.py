"""An nkey's seed: made, and read from its file."""

from __future__ import annotations

import os
from pathlib import Path

import nkeys

from tidelog.errors import ConfigError

_SEED_BYTES = 32


def new_seed() -> bytes:
    """Of a user, from the operating system's randomness."""
    seed: bytes = nkeys.encode_seed(os.urandom(_SEED_BYTES), nkeys.PREFIX_BYTE_USER)
    return seed


def public_key(seed: bytes) -> str:
    """`U…`, which servers and inboxes are told. Raises ValueError."""
    try:
        pair = nkeys.from_seed(bytearray(seed.strip()))
        public: str = pair.public_key.decode()
    except Exception:  # noqa: BLE001 - nkeys raises what it meets: binascii's, struct's, its own
        raise ValueError("no seed of a user") from None
    pair.wipe()
    if not public.startswith("U"):
        raise ValueError("no seed of a user")
    return public


def public_key_of(path: str) -> str:
    """Of the seed in a file. Raises ConfigError, which shows nothing of what is in it."""
    try:
        return public_key(Path(path).read_bytes())
    except OSError as error:
        hint = "`tidelog keys DIR` makes one for each identity"
        raise ConfigError(
            f"nats-nkey-file {path} can't be read: {error.strerror}", hint=hint
        ) from None
    except ValueError as error:
        hint = "it holds one line that begins with SU, as `tidelog keys` writes it"
        raise ConfigError(f"nats-nkey-file {path} holds {error}", hint=hint) from None
