"""Subject, stream and bucket names (design section 5), and the reversible escape of names."""

from __future__ import annotations

import re

_SAFE = re.compile(rb"[A-Za-z0-9_-]+")
_ESCAPED = re.compile(r"=([0-9A-F]{2})")


def is_cluster_name(name: str) -> bool:
    """It stands in subjects and in the names of buckets as it is."""
    return _SAFE.fullmatch(name.encode()) is not None


def escape(name: str) -> str:
    """A database, table or node name as one subject token; `=XX` for every other UTF-8 byte.

    Reversible and injective; the empty name is `=`.
    """
    if not name:
        return "="
    raw = name.encode()
    if _SAFE.fullmatch(raw):
        return name
    return "".join(
        chr(b) if (chr(b).isascii() and (chr(b).isalnum() or b in b"_-")) else f"={b:02X}"
        for b in raw
    )


def unescape(token: str) -> str:
    """The name of an escaped token; of one that nobody escaped, what can be read of it."""
    if not token.strip("="):
        return ""
    raw = _ESCAPED.sub(lambda m: chr(int(m[1], 16)), token)
    return raw.encode("latin-1", "replace").decode(errors="replace")


def registry(cluster: str, verb: str) -> str:
    return f"tidelog.{cluster}.registry.{verb}"


def registry_event(cluster: str, kind: str, node: str) -> str:
    return f"tidelog.{cluster}.registry.event.{kind}.{escape(node)}"


def registry_events(cluster: str) -> str:
    """All of them, to listen to."""
    return f"tidelog.{cluster}.registry.event.>"


def pump(cluster: str, node: str, verb: str) -> str:
    return f"tidelog.{cluster}.pump.{escape(node)}.{verb}"


def drainer(cluster: str, node: str, verb: str) -> str:
    return f"tidelog.{cluster}.drainer.{escape(node)}.{verb}"


def applier(cluster: str, node: str, verb: str) -> str:
    return f"tidelog.{cluster}.applier.{escape(node)}.{verb}"


def backfill(cluster: str, node: str, verb: str) -> str:
    """Of its events the verb is `event.<job>`."""
    return f"tidelog.{cluster}.backfill.{escape(node)}.{verb}"


def backfill_events(cluster: str) -> str:
    """Of all jobs, to listen to."""
    return f"tidelog.{cluster}.backfill.*.event.*"


def txnstatus(cluster: str) -> str:
    return f"tidelog.{cluster}.txnstatus"


def members_bucket(cluster: str) -> str:
    """The membership bucket, source 0 of every Drainer (I3)."""
    return f"tidelog_{cluster}_members"


def status_bucket(cluster: str) -> str:
    """The nodes' statuses, each under a lease of its own; nothing is decided by them."""
    return f"tidelog_{cluster}_status"


def feeds_bucket(cluster: str) -> str:
    """The feeds' records (`feed.<name>`), and who publishes each (`lease.<name>`)."""
    return f"tidelog_{cluster}_feeds"


def registry_bucket(cluster: str) -> str:
    """What the registry keeps beside it: the oracle's bound, consumers, feeds."""
    return f"tidelog_{cluster}_registry"


def cluster_buckets(cluster: str) -> tuple[str, ...]:
    """All that are the cluster's, not a feed's."""
    names = (members_bucket, status_bucket, feeds_bucket, registry_bucket)
    return tuple(name(cluster) for name in names)


def bucket_stream(bucket: str) -> str:
    """The stream that holds a bucket, as NATS calls it."""
    return f"KV_{bucket}"


def replay_feed(feed: str, reader: str) -> str:
    """What a rewind fills for one reader is a feed of its own. No feed's own name has a `=`, so no
    other stream has its subjects, `changes.<feed>=<reader>.>`."""
    return f"{feed}={reader}"


def is_replay(feed: str) -> bool:
    """Is it what a rewind fills for one reader?"""
    return "=" in feed


def feed_label(feed: str) -> str:
    """A feed in a metric's label. All replays of one have the same: readers' names are as many as
    there ever were, and a label never goes."""
    name, of_reader, _ = feed.partition("=")
    return f"{name}=replay" if of_reader else name


def changes_stream(feed: str) -> str:
    """Of a feed, or of a replay."""
    name, _, reader = feed.partition("=")
    return f"REPLAY_{name.upper()}_{reader}" if reader else f"CHANGES_{name.upper()}"


def schemas_bucket(feed: str) -> str:
    """Of a feed, or of a replay."""
    name, _, reader = feed.partition("=")
    return f"REPLAY_SCHEMAS_{name.upper()}_{reader}" if reader else f"SCHEMAS_{name.upper()}"


def ddl_bucket(feed: str) -> str:
    """What the feed's operators ordered about DDLs, and which it did not publish as they came."""
    return f"DDL_{feed.partition('=')[0].upper()}"


def changes_row(feed: str, db: str, table: str) -> str:
    return f"changes.{feed}.row.{escape(db)}.{escape(table)}"


def changes_ddl(feed: str, db: str, table: str) -> str:
    return f"changes.{feed}.ddl.{escape(db)}.{escape(table)}"


def changes_ddls(feed: str) -> str:
    """All of a feed, to listen to."""
    return f"changes.{feed}.ddl.>"


def changes_txn(feed: str) -> str:
    return f"changes.{feed}.txn"


def changes_watermark(feed: str) -> str:
    return f"changes.{feed}.watermark"


def snap_stream(feed: str) -> str:
    """What a backfill copies for a feed's readers; only backfills publish there."""
    return f"SNAP_{feed.upper()}"


def snap(feed: str, kind: str) -> str:
    return f"snap.{feed}.{kind}"


def snap_row(feed: str, db: str, table: str) -> str:
    return f"snap.{feed}.row.{escape(db)}.{escape(table)}"


def snap_table(feed: str, db: str, table: str) -> str:
    """The table's structure."""
    return f"snap.{feed}.table.{escape(db)}.{escape(table)}"
