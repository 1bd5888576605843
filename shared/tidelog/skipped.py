"""The record of transactions that were committed upstream without binlogs (ADR 11). Pure.

A PumpClient with `ignore_error` writes it as a transaction of its own, without rows, whose
prewrite_key holds it; a feed's marker carries it on as `MarkedTxn.skipped`.
"""

from __future__ import annotations

import msgspec

KEY = b"tidelog.skipped:"


class Skipped(msgspec.Struct, frozen=True):
    """`transactions` with commit_ts from `from_ts` to `to_ts` are in no Pump, so in no stream;
    `ddls` of them changed the schema. `at_least`: the writer was restarted before it had told, so
    there may be a few more. `client` names the writer, `reason` the error it began with."""

    client: str
    reason: str
    from_ts: int
    to_ts: int
    transactions: int
    ddls: int = 0
    at_least: bool = False

    def __str__(self) -> str:
        more = "at least " if self.at_least else ""
        return (
            f"{more}{self.transactions} transactions ({self.ddls} DDLs) from {self.from_ts} to"
            f" {self.to_ts} were committed without binlogs by {self.client}: {self.reason}"
        )


def joined(first: Skipped | None, then: Skipped | None) -> Skipped | None:
    """Both as one record."""
    if first is None or then is None:
        return first or then
    return Skipped(
        then.client,
        first.reason,
        min(first.from_ts, then.from_ts),
        max(first.to_ts, then.to_ts),
        first.transactions + then.transactions,
        first.ddls + then.ddls,
        first.at_least or then.at_least,
    )


def to_key(skipped: Skipped) -> bytes:
    return KEY + msgspec.json.encode(skipped)


def from_key(prewrite_key: bytes) -> Skipped | None:
    """None: it is a row's key. Raises msgspec.DecodeError for a record that can't be read."""
    if not prewrite_key.startswith(KEY):
        return None
    return msgspec.json.decode(prewrite_key[len(KEY) :], type=Skipped)
