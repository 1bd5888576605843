"""Folding against a model: a dictionary that takes the changes one by one."""

from __future__ import annotations

import random
from typing import Any

from tests.unit.downstreams.shapes import created, deleted, updated
from tidelog.changes import Event
from tidelog.plan.fold import fold

Rows = dict[int, dict[str, Any]]


def replay(rows: Rows, events: list[Event]) -> Rows:
    rows = dict(rows)
    for event in events:
        if event.before is not None:
            del rows[event.before["id"]]
        if event.after is not None:
            assert event.after["id"] not in rows
            rows[event.after["id"]] = event.after
    return rows


def apply_folded(rows: Rows, events: list[Event], *, safe: bool) -> Rows:
    rows = dict(rows)
    folded = fold(events, ["id"], safe=safe)
    for image in folded.deletes:
        assert rows.pop(image.row["id"], None) is not None or safe
    for image in folded.inserts:
        assert image.row["id"] not in rows or safe
        rows[image.row["id"]] = image.row
    for image in folded.updates:
        assert image.row["id"] in rows or safe
        rows[image.row["id"]] = image.row
    return rows


def history(rng: random.Random, rows: Rows, length: int) -> list[Event]:
    """Changes the upstream could have made from `rows` on, keys reused often."""
    rows = dict(rows)
    events: list[Event] = []
    for number in range(length):
        free = [key for key in range(6) if key not in rows]
        if free and (not rows or rng.random() < 0.4):
            row = {"id": rng.choice(free), "v": number}
            events.append(created(row))
            rows[row["id"]] = row
            continue
        before = rows.pop(rng.choice(sorted(rows)))
        if rng.random() < 0.4:
            events.append(deleted(before))
            continue
        key = rng.choice([before["id"], *free])
        rows[key] = {"id": key, "v": number}
        events.append(updated(before, rows[key]))
    return events


def test_folding_leaves_what_one_by_one_leaves() -> None:
    rng = random.Random(7)
    for _ in range(2000):
        start = {key: {"id": key, "v": -1} for key in range(6) if rng.random() < 0.5}
        events = history(rng, start, rng.randrange(1, 15))
        done = replay(start, events)
        assert apply_folded(start, events, safe=False) == done
        # Again, after all or a part of it happened: it comes to the same (I6).
        assert apply_folded(done, events, safe=True) == done
        part = replay(start, events[: rng.randrange(len(events) + 1)])
        assert apply_folded(part, events, safe=True) == done


def test_a_key_swap_deletes_both_before_it_puts() -> None:
    events = [
        updated({"id": 1, "v": "a"}, {"id": 9, "v": "a"}),
        updated({"id": 2, "v": "b"}, {"id": 1, "v": "b"}),
        updated({"id": 9, "v": "a"}, {"id": 2, "v": "a"}),
    ]
    folded = fold(events, ["id"])
    assert [image.row["id"] for image in folded.deletes] == [1, 2]
    again = fold(events, ["id"], safe=True)
    assert [image.row["id"] for image in again.deletes] == [1, 2, 9]
    assert [image.row for image in (*folded.inserts, *folded.updates)] == [
        {"id": 1, "v": "b"},
        {"id": 2, "v": "a"},
    ]


def test_a_key_spelled_anew_is_deleted_first() -> None:
    """Under a case-insensitive collation both are one key for the database."""
    folded = fold([updated({"id": "Ab"}, {"id": "AB"})], ["id"])
    assert [image.row["id"] for image in folded.deletes] == ["Ab"]
    assert [image.row["id"] for image in (*folded.inserts, *folded.updates)] == ["AB"]


def test_the_same_text_marked_and_plain_is_one_key() -> None:
    marked = Event("c", 1, None, None, {"id": "YWJj", "v": "/w=="}, ["id", "v"])
    folded = fold([marked, deleted({"id": "abc", "v": None})], ["id"])
    assert (*folded.inserts, *folded.updates) == ()


def test_rows_come_in_the_order_of_their_keys() -> None:
    events = [created({"id": n}) for n in (5, 3, 9)] + [deleted({"id": n}) for n in (8, 2)]
    folded = fold(events, ["id"])
    assert [image.row["id"] for image in folded.inserts] == [3, 5, 9]
    assert [image.row["id"] for image in folded.deletes] == [2, 8]


def test_text_beside_bytes_has_no_order() -> None:
    folded = fold([created({"id": "/w=="}, ("id",)), created({"id": "abc"})], ["id"])
    assert [image.row["id"] for image in folded.inserts] == ["/w==", "abc"]
