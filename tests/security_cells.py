"""Who may do what on NATS, written down by hand: the table is compared with it in a unit test, and
a server that is configured by the table in an integration test.

The subjects are made by `tidelog.subjects`; a function of it that no cell was made by fails a test.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tidelog import subjects

CLUSTER = "default"
FEED = "main"
REPLAY = subjects.replay_feed(FEED, "reader-1")
IDENTITIES = [
    *("registry", "pump", "drainer", "applier", "backfill"),
    *("admin", "writer", "subscriber", "monitor"),
]


class Cell(NamedTuple):
    """A subject, and the identities that may publish and subscribe to it."""

    subject: str
    publish: frozenset[str]
    subscribe: frozenset[str]


def _cell(subject: str, publish: str, subscribe: str = "") -> Cell:
    return Cell(subject, frozenset(publish.split()), frozenset(subscribe.split()))


_MEMBERS = "pump drainer applier backfill"
_REGISTRY = {
    "register": _MEMBERS,
    "heartbeat": _MEMBERS,
    "nodes": " ".join(IDENTITIES),
    # An operator's orders; a node's page hands on those of who has the admin token.
    "state": "admin pump drainer applier",
    "safepoint": "drainer backfill admin subscriber",
    "tso": "pump backfill admin writer",
    "ddl-append": "writer",
    "ddl-list": "drainer backfill admin writer",
}
_NODES = (
    (subjects.pump, "pump", {
        "write": "writer",
        "pull": "drainer",
        "control": "admin registry pump drainer",
    }),
    (subjects.drainer, "drainer", {
        "pump-online": "registry",
        "rewind": "admin applier subscriber",
        "control": "admin",
    }),
    (subjects.applier, "applier", {"control": "admin"}),
    (subjects.backfill, "backfill", {"submit": "admin", "status": "admin", "cancel": "admin"}),
)  # fmt: skip


def control() -> Iterator[Cell]:
    """Of the cluster's nodes."""
    for verb, who in _REGISTRY.items():
        yield _cell(subjects.registry(CLUSTER, verb), who, "registry")
    event = subjects.registry_event(CLUSTER, "online", "pump.1")
    yield _cell(event, "registry", "admin writer monitor")
    yield _cell(subjects.registry_events(CLUSTER), "registry", "admin writer monitor")
    for subject, kind, verbs in _NODES:
        for verb, who in verbs.items():
            yield _cell(subject(CLUSTER, "node.1", verb), who, kind)
    yield _cell(subjects.backfill(CLUSTER, "b", "event.job"), "backfill", "admin registry")
    yield _cell(subjects.backfill_events(CLUSTER), "backfill", "admin registry")
    yield _cell(subjects.txnstatus(CLUSTER), "pump", "writer")
    for verb in ("PING", "INFO", "STATS"):
        yield _cell(f"$SRV.{verb}", "admin monitor", "registry pump drainer applier backfill")
        for kind in ("registry", "pump", "drainer", "applier", "backfill"):
            yield _cell(f"$SRV.{verb}.tidelog-{kind}", "admin monitor", kind)
            yield _cell(f"$SRV.{verb}.tidelog-{kind}.id", "admin monitor", kind)


def streams() -> Iterator[Cell]:
    """What streams take."""
    for subject in (
        subjects.changes_txn("*"),
        subjects.changes_watermark("*"),
        subjects.changes_ddls("*"),
    ):
        yield _cell(subject, "drainer", "admin subscriber registry")
    for feed in (FEED, REPLAY):
        yield _cell(subjects.changes_row(feed, "db.x", "t"), "drainer", "admin subscriber")
        for subject in (
            subjects.changes_ddl(feed, "db", ""),
            subjects.changes_ddls(feed),
            subjects.changes_txn(feed),
            subjects.changes_watermark(feed),
        ):
            yield _cell(subject, "drainer", "admin subscriber registry")
    for subject in (
        subjects.snap(FEED, "plan"),
        subjects.snap_row(FEED, "db", "t"),
        subjects.snap_table(FEED, "db", "t"),
    ):
        yield _cell(subject, "backfill")
    feeds = subjects.feeds_bucket(CLUSTER)
    for bucket, key, who in (
        (subjects.members_bucket(CLUSTER), "pump-1", "registry"),
        (subjects.status_bucket(CLUSTER), "pump.pump-1", "registry"),
        (subjects.registry_bucket(CLUSTER), "lease", "registry"),
        (feeds, f"feed.{FEED}", "drainer admin"),
        (feeds, f"lease.{FEED}", "drainer"),
        (feeds, f"lease.applier.{FEED}.a", "drainer applier"),
        (subjects.schemas_bucket(FEED), "1", "drainer"),
        (subjects.schemas_bucket(REPLAY), "1", "drainer"),
        (subjects.ddl_bucket(FEED), "orders", "drainer"),
    ):
        yield _cell(f"$KV.{bucket}.{key}", who)


_LOOK = ("STREAM.INFO.{}", "STREAM.MSG.GET.{}")
_READ = ("CONSUMER.CREATE.{}.c", "CONSUMER.MSG.NEXT.{}.c", "CONSUMER.DELETE.{}.c")
_NOBODY = ("STREAM.UPDATE.{}", "STREAM.PURGE.{}", "STREAM.MSG.DELETE.{}", "CONSUMER.LIST.{}")
_READERS = "drainer applier backfill admin subscriber"


def jetstream() -> Iterator[Cell]:
    """Its API, for each stream; monitors may see how long each is."""
    yield _cell("$JS.API.INFO", "admin monitor")
    yield _cell("$JS.API.STREAM.NAMES", "admin monitor")
    yield _cell("$JS.API.STREAM.LIST", "admin monitor")
    members, status, feeds, registry = map(
        subjects.bucket_stream, subjects.cluster_buckets(CLUSTER)
    )
    yield from _stream(
        members, "registry pump drainer admin", "registry drainer admin", "registry", "registry"
    )
    yield from _stream(status, "registry admin", "registry admin", "registry", "")
    yield from _stream(registry, "registry admin", "registry admin", "registry", "")
    yield from _stream(
        feeds,
        _READERS.replace("subscriber", "registry"),
        "registry drainer admin",
        "drainer applier admin",
        "",
    )
    buckets = (
        subjects.schemas_bucket(FEED),
        subjects.schemas_bucket(REPLAY),
        subjects.ddl_bucket(FEED),
    )
    for stream in (
        *map(subjects.bucket_stream, buckets),
        subjects.changes_stream(FEED),
        subjects.changes_stream(REPLAY),
        subjects.snap_stream(FEED),
    ):
        look = f"{_READERS} registry"
        yield from _stream(stream, look, _READERS, "drainer backfill", "drainer admin")


def _stream(name: str, look: str, read: str, create: str, delete: str) -> Iterator[Cell]:
    for calls, who in (
        (_LOOK[:1], f"{look} monitor"),
        (_LOOK[1:], look),
        (_READ, read),
        (("STREAM.CREATE.{}",), create),
        (("STREAM.DELETE.{}",), delete),
        (_NOBODY, ""),
    ):
        for call in calls:
            yield _cell(f"$JS.API.{call.format(name)}", who)


def nobodys() -> Iterator[Cell]:
    """Wildcards, other clusters, other systems, and everybody's inbox."""
    for subject in (
        "anything",
        subjects.registry("another", "state"),
        subjects.pump("another", "p", "write"),
        f"$KV.{subjects.members_bucket('another')}x",
        "$SYS.REQ.SERVER.PING",
        "$SYS.REQ.USER.INFO",
        "_INBOX.a.b",
        "$JS.ACK.CHANGES_MAIN.c.1.1.1.1.1",
        "$JS.EVENT.ADVISORY.API",
    ):
        yield _cell(subject, "")
    for subject in (
        ">",
        "tidelog.>",
        f"tidelog.{CLUSTER}.>",
        "_INBOX.>",
        "$JS.>",
        "$KV.>",
        "$SYS.>",
    ):
        yield _cell(subject, "")


CELLS = tuple(dict.fromkeys([*control(), *streams(), *jetstream(), *nobodys()]))
