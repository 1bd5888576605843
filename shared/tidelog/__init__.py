"""Tidelog: the library that its services share and that applications import.

from tidelog import connect             # write rows: transactions and schema changes
from tidelog import PumpClient          # write binlogs, as a database makes them
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidelog.pump_client import PumpClient, Transaction, Writer
    from tidelog.pump_client.connect import connect

__all__ = ["PumpClient", "Transaction", "Writer", "connect"]

# Loaded when first asked for: the pure parts of the library stay free of what a client needs.
_WHERE = {
    "PumpClient": "tidelog.pump_client",
    "Transaction": "tidelog.pump_client",
    "Writer": "tidelog.pump_client",
    "connect": "tidelog.pump_client.connect",
}


def __getattr__(name: str) -> object:
    if name in _WHERE:
        return getattr(import_module(_WHERE[name]), name)
    raise AttributeError(f"module 'tidelog' has no attribute {name!r}")
