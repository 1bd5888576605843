"""docs/reference/subjects.md: every subject, stream and bucket."""

from __future__ import annotations

from docs.generate.channels import Struct, channels
from docs.generate.markdown import WRITTEN, code, table
from tidelog import subjects

INTRODUCTION = """# Subjects

`<c>` is the cluster's name (`cluster`), `<node>` a node's. In a token of a subject every byte but
`A-Z a-z 0-9 _ -` is `=XX`, and the empty name is `=`: the table `t.1` is `t=2E1`. Bodies are JSON
but for the bulk ones, which are messages of `proto/tidelog_proto/transport.proto`; the schemas
are in [asyncapi.yaml](../asyncapi.yaml). An error comes instead of a reply, as
`{"error":"error","code","message","hint"}` with the [class](exit-codes.md#errors) in `code`.
"""
BUCKETS = (
    (subjects.members_bucket("<c>"), "who is a member: what every Drainer merges first"),
    (subjects.status_bucket("<c>"), "the nodes' statuses, under a lease"),
    (subjects.feeds_bucket("<c>"), "the feeds' records, and who publishes each"),
    (subjects.registry_bucket("<c>"), "the oracle's bound, consumers, feeds"),
    (subjects.schemas_bucket("<feed>"), "tables' structures, `<db>.<table>.<schema_version>`"),
    (subjects.ddl_bucket("<feed>"), "orders about DDLs, and DDLs not published as they came"),
)
MICRO = "Every service also answers `$SRV.PING`, `$SRV.INFO` and `$SRV.STATS`: `nats micro ls`.\n"


def page() -> str:
    parts = [WRITTEN, INTRODUCTION, "## Between the services\n", _requests()]
    parts += ["## Changes\n", _stream("changes", subjects.changes_stream("<feed>"))]
    parts += ["## Copies\n", _stream("snapshot", subjects.snap_stream("<feed>"))]
    buckets = table(("bucket", "what"), [(code(name), what) for name, what in BUCKETS])
    return "\n".join([*parts, "## Buckets\n", buckets, MICRO])


def _requests() -> str:
    rows = [
        (code(c.subject), c.serves, c.other, _bodies(c.bodies), _bodies(c.replies), c.what)
        for c in channels()
        if c.kind == "control"
    ]
    return table(("subject", "served by", "asked by", "request", "reply", "what"), rows)


def _stream(kind: str, stream: str) -> str:
    found = [c for c in channels() if c.kind == kind]
    (serves,) = {channel.serves for channel in found}
    told = f"In the JetStream stream `{stream}`; only the {serves} publishes there.\n"
    rows = [(code(c.subject), _bodies(c.bodies), c.what) for c in found]
    return told + "\n" + table(("subject", "body", "what"), rows)


def _bodies(bodies: tuple[Struct | str, ...]) -> str:
    return ", ".join(code(b if isinstance(b, str) else b.__name__) for b in bodies)
