"""Bodies, headers and answers of the JetStream API as this project uses it. Pure.

Atomic batches: ADR-50 of nats-architecture-and-design (headers Nats-Batch-*); a lease per message:
ADR-43 (Nats-TTL). Error codes: the server's `errors.json`.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import msgspec

from tidelog.errors import (
    BadInput,
    Conflict,
    InvariantBroken,
    StreamFull,
    StreamMissing,
    Unavailable,
)
from tidelog.ports import Message, Outgoing, StreamConfig, StreamState

BATCH_MESSAGES = 1000
BATCH_ID = "Nats-Batch-Id"
BATCH_SEQUENCE = "Nats-Batch-Sequence"
BATCH_COMMIT = "Nats-Batch-Commit"
EXPECTED_LAST_SEQ = "Nats-Expected-Last-Sequence"
EXPECTED_LAST_SUBJECT_SEQ = "Nats-Expected-Last-Subject-Sequence"
TTL = "Nats-TTL"

STREAM_NOT_FOUND = 10059
NO_MESSAGE_FOUND = 10037
TTL_DISABLED = 10166
WRONG_LAST_SEQUENCE = (10071, 10164)
"""Wrong last sequence, with and without the present one in its text."""
NO_ROOM = (10002, 10023, 10047, 10077)
"""Resource limits exceeded for account; insufficient resources; insufficient storage resources;
the store refused: maximum bytes or messages exceeded under discard new."""


class ApiError(msgspec.Struct, frozen=True):
    code: int = 0
    err_code: int = 0
    description: str = ""


class _State(msgspec.Struct, frozen=True):
    messages: int = 0
    first_seq: int = 0
    last_seq: int = 0


class _Config(msgspec.Struct, frozen=True):
    max_msgs_per_subject: int = -1
    max_bytes: int = -1


class StreamInfo(msgspec.Struct, frozen=True):
    error: ApiError | None = None
    created: str = ""
    state: _State = _State()
    config: _Config = _Config()


class _Stored(msgspec.Struct, frozen=True):
    subject: str = ""
    seq: int = 0
    data: str = ""
    hdrs: str = ""
    time: str = ""


class _Got(msgspec.Struct, frozen=True):
    error: ApiError | None = None
    message: _Stored | None = None


class _Ack(msgspec.Struct, frozen=True):
    error: ApiError | None = None
    stream: str = ""
    seq: int = 0


class _Outcome(msgspec.Struct, frozen=True):
    error: ApiError | None = None
    success: bool = False


def stream_body(config: StreamConfig) -> dict[str, Any]:
    """File storage, one replica, discard old; no direct gets: every read is the leader's."""
    return {
        "name": config.name,
        "subjects": list(config.subjects),
        "retention": "limits",
        "discard": "old",
        "storage": "file",
        "num_replicas": 1,
        "max_age": int(config.max_age_s * 1e9),
        "max_bytes": config.max_bytes or -1,
        "max_msgs_per_subject": config.max_msgs_per_subject or -1,
        "allow_atomic": True,
        "allow_msg_ttl": config.allow_ttl,
        "allow_direct": False,
        "duplicate_window": 0,
    }


def raise_for(error: ApiError, stream: str) -> None:
    """The error of this project for one of the server's."""
    text = f"{stream}: {error.description} (NATS {error.err_code})"
    if error.err_code in WRONG_LAST_SEQUENCE:
        raise Conflict(text)
    if error.err_code == STREAM_NOT_FOUND:
        raise StreamMissing(f"stream {stream} does not exist")
    if error.err_code in NO_ROOM:
        raise StreamFull(text)
    if error.err_code == TTL_DISABLED:
        raise BadInput(text)
    raise Unavailable(text)


def stream_info(data: bytes, name: str = "stream") -> StreamInfo | None:
    """None if there is no such stream."""
    info = msgspec.json.decode(data, type=StreamInfo)
    if info.error is not None:
        if info.error.err_code == STREAM_NOT_FOUND:
            return None
        raise_for(info.error, name)
    return info


def created_state(data: bytes) -> StreamState:
    info = msgspec.json.decode(data, type=StreamInfo)
    if info.error is not None:
        if info.error.code == 400:
            raise BadInput(f"the stream can't be created: {info.error.description}")
        raise_for(info.error, "stream")
    return state_of(info)


def state_of(info: StreamInfo) -> StreamState:
    state = info.state
    most = max(0, info.config.max_bytes)
    return StreamState(info.created, state.first_seq, state.last_seq, state.messages, most)


def check_deleted(data: bytes) -> None:
    """Deleting a stream that is not there is done already."""
    outcome = msgspec.json.decode(data, type=_Outcome)
    if outcome.error is not None and outcome.error.err_code != STREAM_NOT_FOUND:
        raise_for(outcome.error, "stream")


def fences(last_seq: int | None, last_subject_seq: int | None) -> dict[str, str]:
    found = {}
    if last_seq is not None:
        found[EXPECTED_LAST_SEQ] = str(last_seq)
    if last_subject_seq is not None:
        found[EXPECTED_LAST_SUBJECT_SEQ] = str(last_subject_seq)
    return found


def batch_headers(
    messages: Sequence[Outgoing], fence: dict[str, str], batch_id: str
) -> list[dict[str, str]]:
    """Of each message of an atomic batch, with its own: the fence on the first, the commit on the
    last; a single message needs no batch. Raises BadInput for an impossible one."""
    if not 0 < len(messages) <= BATCH_MESSAGES:
        raise BadInput(f"a batch of {len(messages)} messages; 1 to {BATCH_MESSAGES} are possible")
    headers = [dict(message.headers) for message in messages]
    headers[0].update(fence)
    for message, carried in zip(messages, headers, strict=True):
        if message.ttl_s:
            carried[TTL] = f"{message.ttl_s}s"
    if len(messages) > 1:
        for number, carried in enumerate(headers, 1):
            carried[BATCH_ID] = batch_id
            carried[BATCH_SEQUENCE] = str(number)
        headers[-1][BATCH_COMMIT] = "1"
    return headers


def acked_sequence(stream: str, data: bytes) -> int:
    """The last sequence of an acknowledged append. Raises Conflict, StreamMissing, Unavailable."""
    ack = msgspec.json.decode(data, type=_Ack)
    if ack.error is not None:
        raise_for(ack.error, stream)
    if ack.stream != stream:
        raise InvariantBroken(f"stream {ack.stream} took messages meant for {stream}")
    return ack.seq


def stored_message(stream: str, data: bytes) -> Message | None:
    got = msgspec.json.decode(data, type=_Got)
    if got.error is not None:
        if got.error.err_code == NO_MESSAGE_FOUND:
            return None
        raise_for(got.error, stream)
    stored = got.message
    if stored is None:
        raise Unavailable(f"{stream}: an answer without a message")
    headers = own_headers(base64.b64decode(stored.hdrs)) if stored.hdrs else {}
    return Message(stored.subject, base64.b64decode(stored.data), headers, stored.seq)


def own_headers(raw: bytes) -> dict[str, str]:
    """Headers of a stored message without the server's own (`Nats-…`)."""
    found: dict[str, str] = {}
    for line in bytes(raw).split(b"\r\n")[1:]:
        name, colon, value = line.partition(b":")
        if colon and not name.startswith(b"Nats-"):
            found[name.decode("utf-8", "replace")] = value.strip().decode("utf-8", "replace")
    return found


INACTIVE_S = 60


def consumer_body(
    stream: str, name: str, start_seq: int, subjects: Sequence[str]
) -> dict[str, Any]:
    """An ephemeral consumer in memory, without acknowledgements, from `start_seq` on."""
    config: dict[str, Any] = {
        "name": name,
        "deliver_policy": "by_start_sequence",
        "opt_start_seq": start_seq,
        "ack_policy": "none",
        "replay_policy": "instant",
        "mem_storage": True,
        "num_replicas": 1,
        "inactive_threshold": int(INACTIVE_S * 1e9),
    }
    if subjects:
        config["filter_subjects"] = list(subjects)
    return {"stream_name": stream, "config": config, "action": "create"}


def created_consumer(stream: str, data: bytes) -> None:
    outcome = msgspec.json.decode(data, type=_Outcome)
    if outcome.error is not None:
        if outcome.error.code == 400:
            raise BadInput(f"{stream} can't be read so: {outcome.error.description}")
        raise_for(outcome.error, stream)
