"""The table of identities (design section 5): of it the NATS server's configuration is made, and
the test asks a server about each of its cells."""

from __future__ import annotations

from tidelog import subjects
from tidelog.security.permissions import Permissions, Row

REGISTRY, PUMP, DRAINER, APPLIER, BACKFILL = "registry", "pump", "drainer", "applier", "backfill"
ADMIN, WRITER, SUBSCRIBER, MONITOR = "admin", "writer", "subscriber", "monitor"


def permissions(identity: str, cluster: str, inbox: str) -> Permissions:
    """Of an identity in one cluster; see `Row.granted`. Raises KeyError."""
    return TABLE[identity].granted(cluster, inbox)


def _registry(*verbs: str) -> tuple[str, ...]:
    return tuple(subjects.registry("{c}", verb) for verb in verbs)


def _node(kind: str, *verbs: str) -> tuple[str, ...]:
    """Of every node of the kind."""
    return tuple(f"tidelog.{{c}}.{kind}.*.{verb}" for verb in verbs)


def _micro(service: str) -> tuple[str, ...]:
    """What `nats micro` asks a service."""
    return "$SRV.*", f"$SRV.*.tidelog-{service}", f"$SRV.*.tidelog-{service}.*"


_MEMBERS = subjects.members_bucket("{c}")
_STATUS = subjects.status_bucket("{c}")
_FEEDS = subjects.feeds_bucket("{c}")
_REGISTRY = subjects.registry_bucket("{c}")
_EVENTS = subjects.registry_events("{c}")
_TXN_STATUS = subjects.txnstatus("{c}")
_LOOK_AROUND = ("$JS.API.INFO", "$JS.API.STREAM.NAMES", "$JS.API.STREAM.LIST", "$SRV.>")
_CONSOLE = (
    subjects.changes_txn("*"),
    subjects.changes_watermark("*"),
    subjects.changes_ddls("*"),
    subjects.backfill_events("{c}"),
)
"""What its page shows besides the nodes: rates, positions, DDLs and jobs, and no row's contents."""
_MEMBER = _registry("register", "heartbeat", "nodes")
_BY_TOKEN = _registry("state")
"""A node's page over HTTP takes orders for the node from who has the admin token."""


def _streams(*buckets: str) -> tuple[str, ...]:
    return tuple(map(subjects.bucket_stream, buckets))


TABLE: dict[str, Row] = {
    REGISTRY: Row(
        serves=(*_registry("*"), *_micro(REGISTRY)),
        hears=_CONSOLE,
        asks=(
            _EVENTS,
            *_registry("nodes"),
            *_node("pump", "control"),
            *_node("drainer", "pump-online"),
        ),
        looks=("*",),
        reads=_streams(_MEMBERS, _STATUS, _FEEDS, _REGISTRY),
        writes=(_MEMBERS, _STATUS, _REGISTRY),
        creates=_streams(_MEMBERS, _STATUS, _REGISTRY),
        deletes=_streams(_MEMBERS),
    ),
    PUMP: Row(
        serves=(*_node("pump", "write", "pull", "control"), *_micro(PUMP)),
        asks=(
            *_MEMBER,
            *_BY_TOKEN,
            *_registry("tso"),
            *_node("pump", "control"),
            _TXN_STATUS,
        ),
        looks=_streams(_MEMBERS),
    ),
    DRAINER: Row(
        serves=(*_node("drainer", "pump-online", "rewind", "control"), *_micro(DRAINER)),
        asks=(
            *_MEMBER,
            *_BY_TOKEN,
            *_registry("safepoint", "ddl-list"),
            *_node("pump", "pull", "control"),
            "changes.>",
        ),
        reads=("*", *_streams(_MEMBERS, _FEEDS)),
        writes=("*", _FEEDS),
        creates=("*", *_streams(_FEEDS)),
        deletes=("*",),
    ),
    APPLIER: Row(
        serves=(*_node("applier", "control"), *_micro(APPLIER)),
        asks=(*_MEMBER, *_BY_TOKEN, *_node("drainer", "rewind")),
        looks=_streams(_FEEDS),
        reads=("*",),
        writes=(f"{_FEEDS}/lease.applier.>",),
        creates=_streams(_FEEDS),
    ),
    BACKFILL: Row(
        serves=(*_node("backfill", "*"), *_micro(BACKFILL)),
        asks=(
            *_MEMBER,
            *_registry("safepoint", "tso", "ddl-list"),
            *_node("backfill", "event.*"),
            "snap.>",
        ),
        looks=_streams(_FEEDS),
        reads=("*",),
        creates=("*",),
    ),
    ADMIN: Row(
        hears=(_EVENTS, *_node("backfill", "event.*"), "changes.>"),
        asks=(
            *_registry("nodes", "state", "safepoint", "tso", "ddl-list"),
            *_node("pump", "control"),
            *_node("drainer", "control", "rewind"),
            *_node("applier", "control"),
            *_node("backfill", "*"),
            *_LOOK_AROUND,
        ),
        reads=("*", *_streams(_MEMBERS, _STATUS, _FEEDS, _REGISTRY)),
        writes=(f"{_FEEDS}/feed.>",),
        creates=_streams(_FEEDS),
        deletes=("*",),
    ),
    WRITER: Row(
        serves=(_TXN_STATUS,),
        hears=(_EVENTS,),
        asks=(
            *_registry("nodes", "tso", "ddl-append", "ddl-list"),
            *_node("pump", "write"),
        ),
    ),
    SUBSCRIBER: Row(
        hears=("changes.>",),
        asks=(*_registry("nodes", "safepoint"), *_node("drainer", "rewind")),
        reads=("*",),
    ),
    MONITOR: Row(
        hears=(_EVENTS,),
        asks=(*_registry("nodes"), "$JS.API.STREAM.INFO.*", *_LOOK_AROUND),
    ),
}
IDENTITIES = tuple(TABLE)
