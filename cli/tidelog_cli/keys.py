"""Keys of identities, and the NATS server's configuration made of them.

DIR/<identity>/nkey      the seed: for who is that identity, and nobody else
DIR/nats/auth.conf       public keys and permissions: for the server
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from tidelog.errors import BadInput, Corrupt
from tidelog.real.disk import RealDisk
from tidelog.real.nkey import new_seed, public_key
from tidelog.security.access import inbox_of
from tidelog.security.auth_conf import auth_conf, identity_of
from tidelog.security.identities import IDENTITIES
from tidelog.subjects import is_cluster_name

SEED, AUTH = "nkey", "nats/auth.conf"


class Key(msgspec.Struct, frozen=True):
    """The documented JSON form; nothing in it is secret."""

    name: str
    file: str
    public: str
    inbox: str
    made: bool


def seed_file(directory: Path, name: str) -> str:
    return str(directory / name / SEED)


def auth_file(directory: Path) -> Path:
    return directory / AUTH


async def make(
    directory: Path,
    cluster: str,
    *,
    more: Sequence[str] = (),
    rotate: Sequence[str] = (),
    remove: Sequence[str] = (),
) -> list[Key]:
    """A key for each identity, each of `more` (`subscriber-billing`) and whoever has one in
    `directory`; keys that are there stay, unless they are in `rotate` or `remove`.

    Raises BadInput for a name that is no identity or no cluster, Corrupt for a file that holds no
    seed.
    """
    if not is_cluster_name(cluster):
        raise BadInput(f"{cluster!r} is no cluster", hint="letters, digits, - and _ only")
    disk = RealDisk(directory)
    names = [*IDENTITIES, *sorted({*more, *_named(disk)}.difference(IDENTITIES))]
    for name in (*more, *rotate):
        _check(name, names)
    for name in remove:
        _check(name, [*names, *disk.listdir(".")])  # of one that was removed, too: a crash since
        _check_removal(name, (*more, *rotate))
    for name in remove:
        # First: whatever a crash leaves, no later call permits it again.
        if disk.exists(f"{name}/{SEED}"):
            await disk.remove(f"{name}/{SEED}")
    keys = [await _key(disk, name, anew=name in rotate) for name in names if name not in remove]
    text = auth_conf({key.name: key.public for key in keys}, cluster).encode()
    disk.mkdir(os.path.dirname(AUTH))
    if not disk.exists(AUTH) or disk.read_file(AUTH) != text:
        await disk.write_file(AUTH, text)
    return keys


def nats_block(directory: Path, of: Path) -> str:
    """Of the configuration in the directory `of`. It is read anew at SIGHUP; the server takes every
    path of an include as one below its configuration."""
    return f'include "{os.path.relpath(auth_file(directory), of)}"\n'


def _named(disk: RealDisk) -> list[str]:
    """Of former calls, those beside the identities themselves."""
    return [name for name in disk.listdir(".") if disk.exists(f"{name}/{SEED}")]


def _check(name: str, names: Sequence[str]) -> None:
    try:
        identity_of(name)
    except KeyError:
        known = ", ".join(IDENTITIES)
        raise BadInput(
            f"{name!r} is no identity", hint=f"one of {known}, or SUCH-A_NAME of one"
        ) from None
    if name not in names or not name.replace("-", "").isalnum():
        raise BadInput(f"{name!r} has no key, or is no name", hint="letters, digits and - only")


def _check_removal(name: str, others: Sequence[str]) -> None:
    if name in IDENTITIES:
        raise BadInput(f"{name} is an identity: it always has a key", hint="--rotate makes another")
    if name in others:
        raise BadInput(f"{name} can't be removed and made at once", hint="one after the other")


async def _key(disk: RealDisk, name: str, *, anew: bool) -> Key:
    path = f"{name}/{SEED}"
    makes = anew or not disk.exists(path)
    if makes:
        disk.mkdir(name)
        await disk.write_file(path, new_seed() + b"\n")
    where = str(disk.path(path))
    try:
        public = public_key(disk.read_file(path))
    except ValueError as error:
        raise Corrupt(f"{where} holds {error}", hint=f"--rotate {name} makes another one") from None
    return Key(name, where, public, inbox_of(public), makes)
