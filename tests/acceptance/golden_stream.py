"""The feed's stream against the reference decoding of set-a, which `tests/fixtures` holds equal to
the original's output in every column that it shows."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

from tests.fixtures.capture import published as as_published
from tests.fixtures.stream import Ddl, Stream
from tidelog.change_reader import Change

Image = dict[str, Any] | None
Row = tuple[str, str, str, str, str, tuple[str, ...]]


def row(db: str, table: str, op: str, before: Image, after: Image, b64: tuple[str, ...]) -> Row:
    images = (json.dumps(image, sort_keys=True) for image in (before, after))
    return (db, table, op, *images, tuple(sorted(b64)))  # type: ignore[return-value]


def published(changes: list[Change]) -> tuple[dict[int, list[Row]], dict[int, str]]:
    """Rows of each transaction, tables in name order; the DDLs' queries."""
    rows: dict[int, list[Row]] = defaultdict(list)
    ddls: dict[int, str] = {}
    for change in changes:
        for ddl in change.ddls:
            ddls[change.commit_ts] = ddl.query
        for message in change.rows:
            for event in message.events:
                rows[event.commit_ts].append(
                    row(
                        *(message.db, message.table, event.op),
                        *(event.before, event.after, tuple(event.b64)),
                    )
                )
    return {ts: sorted(found, key=lambda r: r[:2]) for ts, found in rows.items()}, ddls


def reference() -> dict[int, list[Row]]:
    """The same of the reference decoding; within a table in the order of the transaction."""
    found: dict[int, list[Row]] = {}
    for item in Stream("set-a"):
        if isinstance(item, Ddl):
            continue
        rows = [
            row(part.table.db, part.table.name, c.op, c.before, c.after, tuple(c.b64))
            for part in item.parts
            for c in part.changes
        ]
        if rows:
            found[item.commit_ts] = sorted(rows, key=lambda r: r[:2])
    return found


def check(changes: list[Change]) -> None:
    """Every row of every golden transaction, and every golden DDL's text, as a feed gives it."""
    rows, ddls = published(changes)
    wanted = reference()
    assert rows.keys() == wanted.keys()
    wrong = [ts for ts in wanted if rows[ts] != wanted[ts]]
    assert wrong == [], [(rows[ts], wanted[ts]) for ts in wrong[:1]]
    queries = {t.commit_ts: t.ddl["SQL"] for t in as_published() if t.ddl is not None}
    assert ddls == queries, [
        (ts, ddls.get(ts), queries.get(ts))
        for ts in sorted(ddls.keys() | queries.keys())
        if ddls.get(ts) != queries.get(ts)
    ]
