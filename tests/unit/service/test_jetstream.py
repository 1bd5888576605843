"""Answers of the JetStream API, as this project takes them."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tidelog.errors import (
    BadInput,
    Conflict,
    InvariantBroken,
    StreamFull,
    StreamMissing,
    TidelogError,
    Unavailable,
)
from tidelog.real import jetstream

Answer = Callable[[bytes], object]
READS: dict[str, Answer] = {
    "an append": lambda data: jetstream.acked_sequence("S", data),
    "a message": lambda data: jetstream.stored_message("S", data),
    "a stream": lambda data: jetstream.stream_info(data, "S"),
    "a created stream": jetstream.created_state,
    "a deleted stream": jetstream.check_deleted,
    "a created consumer": lambda data: jetstream.created_consumer("S", data),
}
ERRORS: list[tuple[int, int, type[TidelogError]]] = [
    (10071, 400, Conflict),
    (10164, 400, Conflict),
    (10059, 404, StreamMissing),
    (10002, 400, StreamFull),
    (10023, 503, StreamFull),
    (10047, 500, StreamFull),
    (10077, 503, StreamFull),
    (10166, 400, BadInput),
    (10008, 503, Unavailable),
    (99999, 500, Unavailable),
]


def error(err_code: int, code: int = 500) -> bytes:
    told = {"code": code, "err_code": err_code, "description": "as the server says"}
    return msgspec.json.encode({"type": "x", "error": told})


def body(**fields: Any) -> bytes:
    return msgspec.json.encode({"type": "x"} | fields)


@pytest.mark.parametrize(("err_code", "code", "kind"), ERRORS)
def test_a_number_decides_which_error_it_is(
    err_code: int, code: int, kind: type[TidelogError]
) -> None:
    with pytest.raises(kind) as caught:
        jetstream.acked_sequence("S", error(err_code, code))
    assert type(caught.value) is kind


@pytest.mark.parametrize("what", READS)
def test_no_answer_with_an_error_is_taken_for_a_good_one(what: str) -> None:
    with pytest.raises(Unavailable, match=r"as the server says \(NATS 10008\)"):
        READS[what](error(10008, 503))


@pytest.mark.parametrize("what", ["a created stream", "a created consumer"])
def test_what_can_not_be_made_so_is_the_callers_fault(what: str) -> None:
    with pytest.raises(BadInput, match="as the server says"):
        READS[what](error(10025, 400))


def test_what_is_not_there_is_none_where_it_may_be_missing() -> None:
    assert jetstream.stream_info(error(10059, 404)) is None
    assert jetstream.stored_message("S", error(10037, 404)) is None
    jetstream.check_deleted(error(10059, 404))


def test_another_streams_acknowledgement_is_an_invariant_broken() -> None:
    assert jetstream.acked_sequence("S", body(stream="S", seq=7)) == 7
    with pytest.raises(InvariantBroken, match="stream T took messages meant for S"):
        jetstream.acked_sequence("S", body(stream="T", seq=7))


def test_a_message_without_the_servers_own_headers() -> None:
    raw = b"NATS/1.0\r\nK: v\r\nNats-Batch-Id: x\r\nno header\r\n\r\n"
    stored = {
        "subject": "s.a",
        "seq": 3,
        "data": base64.b64encode(b"body").decode(),
        "hdrs": base64.b64encode(raw).decode(),
    }
    found = jetstream.stored_message("S", body(message=stored))
    assert found is not None
    assert (found.subject, found.data, found.sequence) == ("s.a", b"body", 3)
    assert dict(found.headers) == {"K": "v"}
    with pytest.raises(Unavailable, match="without a message"):
        jetstream.stored_message("S", body())
