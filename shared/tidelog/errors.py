"""The one tree of errors.

Each class says what an operator can do about it (`hint`) and whether the attempted operation surely
did not happen (`definite`): only a definite failure may be retried elsewhere without care.
gRPC statuses and exit codes are tables keyed by class; nothing matches on an error's text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar


class TidelogError(Exception):
    """Root. `message` is one sentence; `hint` says what to do next."""

    definite: ClassVar[bool] = True
    default_hint: ClassVar[str] = ""
    _told_as = ""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint or self.default_hint

    @property
    def codes(self) -> list[str]:
        """For other processes: its class by name, then that one's bases, nearest first."""
        own = [cls.__name__ for cls in type(self).__mro__ if issubclass(cls, TidelogError)]
        return [self._told_as, *own] if self._told_as else own

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class BadInput(TidelogError):
    """Somebody handed us what we can't take; asking again changes nothing."""


class ConfigError(BadInput):
    """A configuration key or value is wrong."""


class ForeignCluster(BadInput):
    """A binlog or a directory belongs to another cluster."""

    default_hint = "point the writer at the Pumps of its own cluster, or set cluster-id"


class ForeignDirectory(BadInput):
    """A data directory was written by another node."""

    default_hint = "give each node its own data directory, or set node-id to the recorded one"


class DirectoryLocked(ForeignDirectory):
    """A running process uses this data directory."""

    default_hint = "end the process that uses this data directory, or give this one its own"


class NodeIdTaken(BadInput):
    """Another process, or another data directory, is the node of this id."""

    default_hint = (
        "start only one of the two, or give the other one an empty directory and a node-id of its "
        "own; one that replaces a lost directory may come once the lost one was taken offline"
    )


class UnparsablePayload(BadInput):
    """A message's bytes are not what its subject or method carries."""


class MessageTooLarge(BadInput):
    """A message is above the limit of the way it came; another way may take it."""


class NotFound(BadInput):
    """What was asked about is not known here."""


class MethodNotAllowed(BadInput):
    """What was asked for is there, but not for this method."""


class Refused(TidelogError):
    """The service works, and says no for now."""


class Unauthenticated(Refused):
    """Nobody says who asks for what is not for everybody."""


class Forbidden(Refused):
    """Whoever asks may not."""


class Untrusted(Refused):
    """Who is at the other end can't be told, or takes no proof of who we are: nothing was sent."""


class NotOnline(Refused):
    """The Pump takes no Prewrites in its present state."""

    default_hint = "write to another Pump, or wait until it is online"


class Stranded(Refused):
    """A Pump that was taken offline holds records above its tombstone that nobody has read."""

    default_hint = "they are in the directory `stranded` of its data directory; see export.json"


class DiskFull(Refused):
    """Too little space is left; Prewrites are refused, the rest goes on."""

    default_hint = "free space in the data directory"


class Overloaded(Refused):
    """A bounded queue is full and the caller's deadline passed while it waited."""

    default_hint = "it passes: ask again, or less at once"


class Unavailable(TidelogError):
    """The other side could not be asked, or did not answer: the outcome may be unknown."""

    definite = False


class NoResponders(Unavailable):
    """Nobody serves the subject: the request surely reached nobody."""

    definite = True


class AnotherNode(NoResponders):
    """What was meant for one node came to another, which has its address now: it did nothing."""

    default_hint = "it passes when the node announces where it is; see `tidelog pumps`"


class DeadlineExceeded(Unavailable):
    """No answer in time."""


class ActorStopped(Unavailable):
    """The actor stopped or was restarted before it answered."""


class StreamFull(Unavailable):
    """A stream, its account or the server's store has no room: nothing was stored."""

    definite = True
    default_hint = (
        "it goes on by itself when there is room: raise the limits of the stream, of its account or"
        " of the server's store (max_file_store), or delete what fills them"
    )


class Conflict(TidelogError):
    """Somebody else wrote first: an expected sequence or revision did not hold."""


class StreamMissing(TidelogError):
    """A stream is not there; it was never created, or its store was deleted."""


class Fatal(TidelogError):
    """The process must not go on with the state it has: exit, start again from what is durable."""


class Stuck(Fatal):
    """An actor made no progress, or does not end, and a call of it may still run in a thread."""


class IoFailed(Fatal):
    """A write or an fsync failed. Never retried in the process: pages may be marked clean."""

    definite = False
    default_hint = "check the disk; the service recovers from its files at the next start"


class Corrupt(Fatal):
    """Stored bytes are not what was written."""

    default_hint = "inspect the named file with `tidelog inspect`; restore it or accept the loss"


class InvariantBroken(Fatal):
    """A rule of design section 4 does not hold: a bug, here or upstream."""

    default_hint = "keep the data directory and the log, and report it with both"


class Stopped(Fatal):
    """A typed stop: going on would lose or reorder something. Needs an operator."""


class PositionUnknown(Stopped):
    """A feed existed, but nothing says up to where it was published."""

    default_hint = "say it by --start-ts TS, or go on with --accept-loss"


class Purged(Stopped):
    """The asked position is no longer stored."""

    default_hint = "begin again from a copy of the source, with a feed of another name"


class LatePair(Stopped):
    """A transaction became readable below what a reader has: it would be lost to that reader."""

    default_hint = "fill the feed again from below that commit_ts, or begin a new feed above it"


EXIT_OK = 0
EXIT_FAILED = 1
EXIT_USAGE = 64
EXIT_UNAVAILABLE = 69
EXIT_RESTART = 70
EXIT_CONFIG = 78
SIGNALLED = 128
"""The exit code of what a signal ended, less the signal's number: a shell's."""

_EXIT_CODES: tuple[tuple[type[TidelogError], int], ...] = (
    (ConfigError, EXIT_CONFIG),
    (BadInput, EXIT_USAGE),
    (Unavailable, EXIT_UNAVAILABLE),
    (Fatal, EXIT_RESTART),
)


def exit_code(error: BaseException) -> int:
    """The process exit code for an error that ended it (sysexits where one fits)."""
    for cls, code in _EXIT_CODES:
        if isinstance(error, cls):
            return code
    return EXIT_FAILED


def told_error(codes: Sequence[str], message: str, *, hint: str = "") -> TidelogError:
    """The error that another process told of: the first class of `codes` that is known here; where
    none is, an `Unavailable` (indefinite). Whatever else its constructor takes is not known."""
    cls = next(filter(None, map(error_class, codes)), Unavailable)
    error = cls.__new__(cls)
    TidelogError.__init__(error, message, hint=hint)
    error._told_as = codes[0] if codes[0] != cls.__name__ else ""
    return error


def error_class(name: str) -> type[TidelogError] | None:
    """None: this process knows no class of that name."""
    queue: list[type[TidelogError]] = [TidelogError]
    while queue:
        cls = queue.pop()
        if cls.__name__ == name:
            return cls
        queue.extend(cls.__subclasses__())
    return None
