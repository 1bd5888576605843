"""What can go wrong between an application and its Pumps."""

from __future__ import annotations

from tidelog.errors import BadInput, Refused, TidelogError


class OutcomeUnknown(TidelogError):
    """A Pump may hold the Prewrite and may not: the transaction failed, write its Rollback."""

    definite = False
    default_hint = "roll the transaction back; the client tells every Pump it tried"


class NoPump(Refused):
    """No Pump took the Prewrite in time, and none can hold it."""

    default_hint = "see `tidelog status`: one must be online"


class NotPrewritten(BadInput):
    """A Commit or Rollback of a transaction whose Prewrite this client did not write, or was not
    acked: there is no Pump to send it to."""

    default_hint = "the Pump that holds the Prewrite asks `txnstatus` what became of it"


class NotSent(Refused):
    """The message waited behind others that got no answer, and was surely not sent."""
