"""Tidelog: the library that its services share and that applications import.

from tidelog import subscribe           # read a feed: whole transactions, each once
from tidelog import connect             # write rows: transactions and schema changes
from tidelog import PumpClient          # write binlogs, as a database makes them
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidelog.pump_client import PumpClient, Transaction, Writer
    from tidelog.pump_client.connect import connect
    from tidelog.subscriber import FilePosition, Position, Subscription, TablePosition, subscribe

__all__ = [
    "FilePosition",
    "Position",
    "PumpClient",
    "Subscription",
    "TablePosition",
    "Transaction",
    "Writer",
    "connect",
    "subscribe",
]

# Loaded when first asked for: the pure parts of the library stay free of what a client needs.
_WHERE = {
    "FilePosition": "tidelog.subscriber.file_position",
    "Position": "tidelog.subscriber.positions",
    "PumpClient": "tidelog.pump_client",
    "Subscription": "tidelog.subscriber.subscription",
    "TablePosition": "tidelog.subscriber.positions",
    "Transaction": "tidelog.pump_client",
    "Writer": "tidelog.pump_client",
    "connect": "tidelog.pump_client.connect",
    "subscribe": "tidelog.subscriber.connect",
}


def __getattr__(name: str) -> object:
    if name in _WHERE:
        return getattr(import_module(_WHERE[name]), name)
    raise AttributeError(f"module 'tidelog' has no attribute {name!r}")
