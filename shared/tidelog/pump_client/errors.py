"""What can go wrong between an application and its Pumps."""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.errors import BadInput, Refused, TidelogError


class OutcomeUnknown(TidelogError):
    """A Pump may hold the Prewrite and may not: the transaction failed, write its Rollback."""

    definite = False
    default_hint = "roll the transaction back; the client tells every Pump it tried"


class NoPump(Refused):
    """No Pump took the Prewrite in time, and none can hold it. `refusals`: what each of those tried
    said last, by node: NotOnline, DiskFull, Overloaded, NoResponders …"""

    default_hint = "see `tidelog status`: one must be online"

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        refusals: Mapping[str, TidelogError] | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.refusals = dict(refusals or {})


class NotPrewritten(BadInput):
    """A Commit of a transaction whose Prewrite this client did not write, or that was not acked:
    there is no Pump to send it to."""

    default_hint = "the Pump that holds the Prewrite asks `txnstatus` what became of it"


class NotSent(Refused):
    """Surely not sent: it waited behind others that got no answer, or there is no way there."""


class RolledBack(Refused):
    """A Pump waited too long for the outcome and had the transaction rolled back, for good."""

    default_hint = "run it again; if this repeats, see why committing takes so long"


class SchemaChanged(Refused):
    """A table was changed by a DDL while the transaction ran: rolled back."""

    default_hint = "run the transaction again: it sees the new schema"


class CommitUnknown(TidelogError):
    """The decision to commit may be recorded and may not; this life of the client can't tell."""

    definite = False
    default_hint = "start the client again with its state directory: it answers what became of it"


class TransactionEnded(BadInput):
    """A transaction is used outside of its block."""
