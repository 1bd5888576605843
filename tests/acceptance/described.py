"""What really travels on NATS against docs/asyncapi.yaml: every message must be on a subject that
the document has, with a body that its schema takes, without fields that the schema lacks."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import yaml
from jsonschema import Draft202012Validator

from tidelog import subjects
from tidelog.changes import H_FRAGMENT
from tidelog.real.bus import NatsBus

ROOT = Path(__file__).parents[2]


@cache
def _document() -> Any:
    return yaml.load((ROOT / "docs/asyncapi.yaml").read_text(), Loader=yaml.CSafeLoader)


def _closed(schema: Any) -> Any:
    """Nothing but what is described."""
    if isinstance(schema, list):
        return [_closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {name: _closed(part) for name, part in schema.items()}
    if "properties" in closed and closed.get("type") == "object":
        closed["additionalProperties"] = False
    return closed


@cache
def _validator(body: str) -> Draft202012Validator:
    schemas = _closed(_document()["components"]["schemas"])
    return Draft202012Validator(
        {"$ref": f"#/components/schemas/{body}", "components": {"schemas": schemas}}
    )


@cache
def _addresses() -> list[tuple[str, re.Pattern[str]]]:
    found = _document()["channels"].items()
    return [
        (name, re.compile(re.sub(r"\\{\w+\\}", "[^.]+", re.escape(channel["address"]))))
        for name, channel in found
        if channel["address"] is not None
    ]


def channel_of(subject: str) -> str:
    """Raises AssertionError: the document does not know it."""
    names = [name for name, address in _addresses() if address.fullmatch(subject)]
    assert len(names) == 1, f"{subject}: {names}"
    return names[0]


def check(channel: str, body: bytes, headers: Mapping[str, str] | None = None) -> None:
    """Raises AssertionError."""
    described = _document()["channels"][channel]["messages"]
    kinds = [name for name, message in described.items() if "payload" in message]
    is_protobuf = len(kinds) < len(described) and not body.startswith(b'{"error"')
    if not is_protobuf:
        value = msgspec.json.decode(body)
        told = {
            kind: [e.message[:300] for e in _validator(kind).iter_errors(value)] for kind in kinds
        }
        assert [] in told.values(), f"{channel}: {told}"
    traits = _document()["components"]["messageTraits"]
    if channel.startswith("changes-"):
        assert set(headers or {}) <= set(traits["change"]["headers"]["properties"])


async def _check_stream(url: str, feed: str) -> Counter[str]:
    stream, seen = subjects.changes_stream(feed), Counter[str]()
    pieces: list[bytes] = []
    bus = await NatsBus.connect(url, name="test")
    newest = await bus.last_message(stream, subjects.changes_txn(feed))
    reader = await bus.read(stream, start_seq=1)
    at = 0
    try:
        while newest is not None and at < newest.sequence:
            for message in await reader.next_batch(500, 1.0):
                index, count = map(int, message.headers.get(H_FRAGMENT, "0/1").split("/"))
                pieces = [*(pieces if index else []), message.data]
                if index + 1 == count:
                    channel = channel_of(message.subject)
                    check(channel, b"".join(pieces), message.headers)
                    seen[channel] += 1
                at = message.sequence
    finally:
        await reader.close()
        await bus.close()
    return seen


def check_stream(url: str, feed: str) -> Counter[str]:
    """Every message of a feed's stream, up to its newest marker; how many there were by channel."""
    return asyncio.run(_check_stream(url, feed))
