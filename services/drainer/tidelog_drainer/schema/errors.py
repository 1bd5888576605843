"""What the feed's schema can fail of."""

from __future__ import annotations

from tidelog.errors import Stopped


class HistoryTooShort(Stopped):
    """The DDL history lacks jobs that this feed was decoded with."""

    default_hint = (
        "point `ddl-history` at one that has them: a TiDB of the same cluster, or a file from"
        " before it was shortened; or begin a feed of another name; or go on with --accept-loss,"
        " and whatever only the missing jobs told stops the feed when it is met"
    )


class SnapshotDamaged(Exception):
    """What lies in the bucket is no snapshot, or parts of two. Internal: it is made again."""
