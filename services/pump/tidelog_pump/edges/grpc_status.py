"""gRPC statuses of our errors, by class (design section 3)."""

from __future__ import annotations

import grpc

from tidelog.errors import (
    BadInput,
    Corrupt,
    DeadlineExceeded,
    DiskFull,
    Forbidden,
    InvariantBroken,
    LatePair,
    MessageTooLarge,
    NotOnline,
    Overloaded,
    Purged,
    Refused,
    TidelogError,
    Unavailable,
)
from tidelog.pump_grpc import DEFINITE_KEY, ERROR_KEY

_TABLE: tuple[tuple[type[TidelogError], grpc.StatusCode], ...] = (
    (MessageTooLarge, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (BadInput, grpc.StatusCode.INVALID_ARGUMENT),
    (NotOnline, grpc.StatusCode.FAILED_PRECONDITION),
    # Not RESOURCE_EXHAUSTED: for a TiDB that is final, and another Pump may have space (A.2).
    (DiskFull, grpc.StatusCode.FAILED_PRECONDITION),
    (Overloaded, grpc.StatusCode.UNAVAILABLE),
    (Forbidden, grpc.StatusCode.PERMISSION_DENIED),
    (Refused, grpc.StatusCode.FAILED_PRECONDITION),
    (DeadlineExceeded, grpc.StatusCode.DEADLINE_EXCEEDED),
    (Unavailable, grpc.StatusCode.UNAVAILABLE),
    (Purged, grpc.StatusCode.OUT_OF_RANGE),
    (Corrupt, grpc.StatusCode.DATA_LOSS),
    (LatePair, grpc.StatusCode.DATA_LOSS),
    (InvariantBroken, grpc.StatusCode.FAILED_PRECONDITION),
)


def trailing(error: TidelogError) -> tuple[tuple[str, str], ...]:
    """Metadata that names our class, for a PumpClient: a status alone tells less."""
    return (
        (ERROR_KEY, type(error).__name__),
        (DEFINITE_KEY, "true" if error.definite else "false"),
    )


def status_code(error: TidelogError) -> grpc.StatusCode:
    """The first row whose class fits; INTERNAL if none does."""
    return next((code for cls, code in _TABLE if isinstance(error, cls)), grpc.StatusCode.INTERNAL)
