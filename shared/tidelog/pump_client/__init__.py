"""The client that writes binlogs to the Pumps (design section 7, last paragraph).

`PumpClient` takes binlogs, as a TiDB makes them. `Writer` makes them: rows, timestamps, decisions.
"""

from tidelog.pump_client.client import PumpClient
from tidelog.pump_client.errors import (
    CommitUnknown,
    NoPump,
    NotPrewritten,
    NotSent,
    OutcomeUnknown,
    RolledBack,
    SchemaChanged,
    TransactionEnded,
)
from tidelog.pump_client.schema_changer import DdlResult
from tidelog.pump_client.transaction import Transaction
from tidelog.pump_client.writer import Writer

__all__ = [
    "CommitUnknown",
    "DdlResult",
    "NoPump",
    "NotPrewritten",
    "NotSent",
    "OutcomeUnknown",
    "PumpClient",
    "RolledBack",
    "SchemaChanged",
    "Transaction",
    "TransactionEnded",
    "Writer",
]
