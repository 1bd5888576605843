"""How a process gets at a NATS server: where, and by which files it says who it is."""

from __future__ import annotations

from typing import Self

import msgspec


class NatsAccess(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """Paths of files; empty = none. Services and jobs have these as keys of their configuration."""

    nats_nkey_file: str = ""
    """Of the key that says who this is, as `tidelog keys` makes it; empty = it does not say."""
    nats_ca: str = ""
    """PEM of who vouches for the NATS server; with it, nothing is sent without TLS."""
    nats_cert: str = ""
    """PEM of our own certificate, for a NATS server that asks for one."""
    nats_key: str = ""
    """PEM of that certificate's key, without a passphrase."""

    def with_access(self, access: NatsAccess) -> Self:
        """The same with the files of another one."""
        return msgspec.structs.replace(self, **_files(access))

    @property
    def access(self) -> NatsAccess:
        """Nothing but the files."""
        return NatsAccess(**_files(self))


def _files(access: NatsAccess) -> dict[str, str]:
    return {name: getattr(access, name) for name in NatsAccess.__struct_fields__}


def inbox_of(public_key: str) -> str:
    """The prefix of where the answers for a key come: no other key may listen there."""
    return f"_INBOX_{public_key}"
