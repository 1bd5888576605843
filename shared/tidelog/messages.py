"""JSON bodies of the control subjects (design section 5). Bulk bodies are protobuf (transport)."""

from __future__ import annotations

from typing import Annotated, TypeVar

import msgspec

from tidelog.errors import TidelogError, UnparsablePayload, told_error
from tidelog.timestamps import Ts
from tidelog.unreadable import NOT_READABLE

S = TypeVar("S", bound=msgspec.Struct)

PUMP, DRAINER, APPLIER = "pump", "drainer", "applier"
KINDS = (PUMP, DRAINER, APPLIER)
NodeId = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
NAME_CHARACTERS = 255
Name = Annotated[str, msgspec.Meta(max_length=NAME_CHARACTERS)]
"""Of a consumer or a feed. Both are checked where a message is parsed."""
JOINING, ONLINE, PAUSING, PAUSED, CLOSING, OFFLINE = (
    "joining",
    "online",
    "pausing",
    "paused",
    "closing",
    "offline",
)


class Order(msgspec.Struct, frozen=True):
    """What an operator last asked of a node: pause, resume or offline; "" = nothing, or it is done.

    The node keeps it in its directory and announces it, the registry keeps a Pump's in its entry of
    the membership bucket. The larger `number` is the newer order, so it holds over the loss of
    either.
    """

    action: str = ""
    number: int = 0


class NodeStatus(msgspec.Struct, frozen=True):
    """The seed's Status, with its JSON names (seed 000, "Pump status definition"), and ours."""

    nodeId: NodeId
    host: str = ""
    state: str = OFFLINE
    isAlive: bool = False
    score: int = 0
    label: dict[str, str] | None = None
    maxCommitTS: Ts = 0
    updateTS: Ts = 0
    kind: str = PUMP
    epoch: int = 0
    highTS: Ts = 0
    """Pump: W, the largest timestamp known to have been allocated."""
    logTS: Ts = 0
    """Pump: the largest timestamp of what is, or was, in its log; 0 = it never took anything."""
    resolvedTS: Ts = 0
    """Pump: resolved_ts. Drainer: published up to. Applier: applied up to (its checkpoint)."""
    feed: Name = ""
    http: str = ""
    """Where its process serves HTTP, as bound."""
    detail: dict[str, str] = {}
    mark: str = ""
    """Pump: drawn once for its data directory. Two directories with one node id differ in it."""
    life: str = ""
    """Pump: drawn at each taking of the directory's lock. Two copies of one directory differ in it
    when they have counted to the same epoch."""
    order: Order = Order()
    """The last operator's order that it knows of."""
    open: int = 0
    """Pump: open Prewrites."""
    standbyOf: str = ""
    """Applier: the node whose place it takes; both write the same downstream."""
    counts: dict[str, int] = {}
    """What it counted since it began, for rates. Pump: `binlogs` made durable. Drainer: `txns` and
    `rows` published, `duplicates`, `dropped.<reason>`. Applier: `txns` and `rows` applied."""


class Register(msgspec.Struct, frozen=True):
    """`registry.register`: join the cluster. Answered with `Registered` once the join is through
    (for a Pump: after the live Drainers acked, I4); a time-out says nothing: ask again."""

    status: NodeStatus
    cluster_id: int = 0


class Registered(msgspec.Struct, frozen=True):
    state: str
    lease_s: float = 6.0
    safe_point: int = 0
    order: Order = Order()


class Heartbeat(msgspec.Struct, frozen=True):
    """`registry.heartbeat`: renews the lease, announces everything the registry would need to
    rebuild itself. Answered with `Beat`; `known=False` asks for a new Register."""

    status: NodeStatus
    consumers: list[Consumer] = []
    feeds: dict[Name, Ts] = {}
    """Pump: each feed's last pulled after_ts."""
    reached: str = ""
    """What this node has reached since it was told `pausing` or `closing`: `paused` or `offline`;
    the agent makes it the status' state."""
    sources: list[str] = []
    """Drainer: the Pumps that it reads, and waits for."""


class Consumer(msgspec.Struct, frozen=True):
    """A registered reader of a feed; the safe point waits for it whatever its lease."""

    name: Name
    feed: Name
    commit_ts: Ts
    only_if_new: bool = False
    """It doesn't know its position yet: one that is known already stays."""


DRAINER_CONSUMER = "drainer"
"""A feed's Drainers count as one consumer of that name, which nobody else may use: what they
published together. The safe point waits for it; it is no reader of the stream."""


class Beat(msgspec.Struct, frozen=True):
    known: bool
    state: str = ONLINE
    safe_point: int = 0
    order: Order = Order()


class Nodes(msgspec.Struct, frozen=True):
    """`registry.nodes`: everything the registry knows; `settled` is False for one lease time after
    its own state was lost, while the nodes announce themselves. `oracle`: who says what time it is
    (I9)."""

    nodes: list[NodeStatus]
    consumers: list[Consumer] = []
    feeds: dict[str, int] = {}
    safe_point: int = 0
    settled: bool = True
    oracle: str = "embedded"


class SafePointRequest(msgspec.Struct, frozen=True):
    """`registry.safepoint`: register or move a consumer, remove one (by name and feed; without a
    name: what the Pumps told of the feed), or ask."""

    consumer: Consumer | None = None
    remove: bool = False


class SafePoint(msgspec.Struct, frozen=True):
    """0 = not known yet: purge nothing. TS_MAX = no consumer is registered: age alone decides."""

    safe_point: int


class Empty(msgspec.Struct, frozen=True):
    pass


class TsoRequest(msgspec.Struct, frozen=True):
    """`registry.tso`: `count` timestamps ending with the one in the answer."""

    count: int = 1


class TsoReply(msgspec.Struct, frozen=True):
    last_ts: int


class StateRequest(msgspec.Struct, frozen=True):
    """`registry.state`: an operator asks for pause, resume or offline. `accept_loss`: an offline
    for a Pump that can't be drained any more. `kind`: of which one, where several have that name;
    empty = the Pump, if one is called so. `dry_run`: only say what would be answered."""

    node: str
    action: str
    accept_loss: bool = False
    kind: str = ""
    dry_run: bool = False


class StateReply(msgspec.Struct, frozen=True):
    """Answer to `registry.state`: the node as it is now, on its way to what was asked; watch
    `nodes` for the rest. `may_lose`: what an accepted loss may cost, a sentence each."""

    status: NodeStatus
    may_lose: list[str] = []


class PumpOnline(msgspec.Struct, frozen=True):
    """`drainer.<node>.pump-online`: add this Pump as a source before you answer (I4)."""

    node: NodeId


class TxnStatusRequest(msgspec.Struct, frozen=True):
    """`txnstatus`: what became of start_ts? `force`: decide it now if it is still open."""

    start_ts: int
    prewrite_key: bytes = b""
    force: bool = False


class TxnStatusReply(msgspec.Struct, frozen=True):
    state: str
    commit_ts: Ts = 0


class DdlAppend(msgspec.Struct, frozen=True):
    """`registry.ddl-append`: the embedded DDL history keeps a job (TiDB's JSON form) durably.
    `after`: only if that is the newest job's id (0 = there is none), else Conflict; None = always.
    """

    job: msgspec.Raw
    after: int | None = None


class DdlList(msgspec.Struct, frozen=True):
    """`registry.ddl-list`: jobs with id > after_job_id, oldest first, a page at a time."""

    after_job_id: int = 0
    limit: int = 200


class DdlJobs(msgspec.Struct, frozen=True):
    jobs: list[msgspec.Raw]
    more: bool = False


class ErrorReply(msgspec.Struct, frozen=True, tag_field="error", tag="error"):
    """A typed error instead of an answer."""

    code: str
    message: str
    hint: str = ""


def encode(body: msgspec.Struct) -> bytes:
    return msgspec.json.encode(body)


def encode_error(error: TidelogError) -> bytes:
    return msgspec.json.encode(ErrorReply(type(error).__name__, error.message, error.hint))


def decode(data: bytes, kind: type[S]) -> S:
    """Parse a request body. Raises UnparsablePayload."""
    try:
        return msgspec.json.decode(data, type=kind)
    except NOT_READABLE as error:
        raise UnparsablePayload(f"a {kind.__name__} that can't be read: {error}") from error


def decode_reply(data: bytes, kind: type[S]) -> S:
    """Parse an answer; an `ErrorReply` is raised as the error it names."""
    if data.startswith(b'{"error":"error"'):
        reply = decode(data, ErrorReply)
        raise told_error([reply.code], reply.message, hint=reply.hint)
    return decode(data, kind)
