"""What an identity may publish and subscribe to, as patterns of subjects. Pure; the table itself is
in `identities`.

What a table's row does not name is denied by the server. The names of feeds, nodes and readers are
not known when the server's configuration is written, and a subject's token can't be matched in
part: a stream of a feed is named by `*`, which stands for all streams, and the cluster's own
buckets that the row does not name besides are denied. So a server, or an account of one, is for
one cluster alone.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from tidelog import subjects

ANSWERS = 1
ANSWER_S = 300
"""Who serves a subject may answer each request so often, and so long after it came. The longest
poll that is answered at all takes 60 s."""

LOOK = ("STREAM.INFO.{}", "STREAM.MSG.GET.{}")
READ = (
    "CONSUMER.CREATE.{}",  # a consumer without a name: nats.js, if there are several filters
    "CONSUMER.CREATE.{}.*",
    "CONSUMER.MSG.NEXT.{}.*",
    "CONSUMER.DELETE.{}.*",
)
CREATE = ("STREAM.CREATE.{}",)
DELETE = ("STREAM.DELETE.{}",)


class Permissions(msgspec.Struct, frozen=True):
    """Patterns of subjects; a denied one is denied whatever else allows it. `answers`: may answer
    what it was asked, wherever the answer goes."""

    publish: tuple[str, ...]
    publish_not: tuple[str, ...]
    subscribe: tuple[str, ...]
    answers: bool

    def may_publish(self, subject: str) -> bool:
        allowed = any(matches(pattern, subject) for pattern in self.publish)
        return allowed and not any(matches(pattern, subject) for pattern in self.publish_not)

    def may_subscribe(self, subject: str) -> bool:
        """`subject` may hold wildcards: all that they match must be allowed."""
        return any(matches(pattern, subject) for pattern in self.subscribe)


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """Of the table; `{c}` in a subject or a name stands for the cluster.

    `serves`: is asked there, and answers. `hears`: only listens. `asks`: publishes. `looks`:
    streams whose state and single messages it sees. `reads`: streams it reads whole. `writes`:
    buckets, or `bucket/keys`, that it puts entries into. `creates`, `deletes`: streams. `*` is each
    feed's, and never a bucket of the cluster.
    """

    serves: tuple[str, ...] = ()
    hears: tuple[str, ...] = ()
    asks: tuple[str, ...] = ()
    looks: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    creates: tuple[str, ...] = ()
    deletes: tuple[str, ...] = ()

    def granted(self, cluster: str, inbox: str) -> Permissions:
        """In one cluster; `inbox` is the prefix of the subjects where its own answers come."""
        own = {subjects.bucket_stream(name) for name in subjects.cluster_buckets("{c}")}
        allowed, denied = [*self.asks], []
        for names, calls in self._calls():
            for call in calls:
                allowed += [f"$JS.API.{call.format(name)}" for name in names]
                if "*" in names:
                    denied += [f"$JS.API.{call.format(name)}" for name in own.difference(names)]
        buckets = {name.partition("/")[0] for name in self.writes}
        allowed += [_entries(name) for name in self.writes]
        if "*" in buckets:
            others = set(subjects.cluster_buckets("{c}")).difference(buckets)
            denied += [_entries(name) for name in others]

        def here(patterns: list[str] | tuple[str, ...]) -> tuple[str, ...]:
            return tuple(sorted({pattern.replace("{c}", cluster) for pattern in patterns}))

        heard = here((*self.serves, *self.hears, f"{inbox}.>"))
        return Permissions(here(allowed), here(denied), heard, bool(self.serves))

    def _calls(self) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
        """Names of streams, and what of the JetStream API is called for them."""
        yield (*self.looks, *self.reads), LOOK
        yield self.reads, READ
        yield self.creates, CREATE
        yield self.deletes, DELETE


def _entries(name: str) -> str:
    bucket, _, keys = name.partition("/")
    return f"$KV.{bucket}.{keys or '>'}"


def matches(pattern: str, subject: str) -> bool:
    """As the server matches: `*` is one token, a last `>` one or more."""
    wanted, found = pattern.split("."), subject.split(".")
    if wanted[-1] == ">":
        wanted = wanted[:-1]
        if len(found) <= len(wanted):
            return False
        found = found[: len(wanted)]
    return len(wanted) == len(found) and all(
        here == there or (here == "*" and there != ">")
        for here, there in zip(wanted, found, strict=True)
    )
