"""A feed's stream in which a stranger wrote, to everybody who reads one: the Applier, the
subscriber library by batches and by rows, and the reader that tests and the console have.

An input is a stream packed by msgpack: so atheris may change it, too.
"""

from __future__ import annotations

import random

import msgspec

from tests.fuzz.mutation import LARGE, NUMBERS, TEXTS, mutated
from tests.fuzz.surface import Surface
from tests.unit.applier.publisher import FEED
from tests.unit.applier.test_assembler import Txn, messages, watermark
from tidelog import changes
from tidelog.change_reader import ChangeAssembler
from tidelog.changes import Marker, Watermark
from tidelog.errors import UnparsablePayload
from tidelog.plan.decode import Decoded
from tidelog.ports import Message
from tidelog.relay import Whole
from tidelog.subscriber.assemblers import BatchAssembler as SubscribedBatches
from tidelog.subscriber.assemblers import RowAssembler
from tidelog.subscriber.tables import Tables
from tidelog_applier.read.assembler import BatchAssembler
from tidelog_drainer.publish import position
from tidelog_registry.console import heard

KEPT = 40
"""Messages of one input, at most."""


class Sent(msgspec.Struct, array_like=True):
    subject: str
    data: bytes
    headers: dict[str, str]


_pack = msgspec.msgpack.encode
_unpack = msgspec.msgpack.Decoder(list[Sent]).decode


def _streams() -> list[list[Sent]]:
    """Rows of several tables, a row in fragments, a DDL, an attempt that was given up."""
    batches = [
        messages([Txn(10, [(0, 5), (1, 5)]), Txn(20, [(0, 700)])], "1:a-1", 0),
        messages([Txn(30, [], ddl=True)], "1:a-2", 20),
        messages([Txn(40, [(2, 50)])], "1:a-3", 30)[:-1],
        messages([Txn(40, [(2, 50)]), Txn(50, [(0, 1)])], "2:b-1", 30),
        [watermark(60, 50)],
        messages([Txn(70, [(1, 900), (2, 1)])], "2:b-2", 60),
    ]
    whole = [Sent(m.subject, m.data, dict(m.headers)) for batch in batches for m in batch]
    return [whole, whole[: len(whole) // 2]]


STREAMS = _streams()
HEADERS = (
    changes.H_INDEX,
    changes.H_FRAGMENT,
    changes.H_LAST_TS,
    changes.H_FIRST_TS,
    changes.H_OPS,
    changes.H_ATTEMPT,
    changes.H_ENVELOPE,
    changes.H_EPOCH,
    changes.H_SCHEMA_VERSION,
    changes.H_EARLY,
    changes.H_PASSED,
)


def _make(rng: random.Random) -> bytes:
    stream = list(rng.choice(STREAMS))
    for _ in range(1 + int(rng.expovariate(1.0))):
        at = rng.randrange(len(stream))
        one = stream[at]
        match rng.randrange(7):
            case 0 | 1 | 2:
                others = [other.data for other in stream]
                stream[at] = Sent(one.subject, mutated(rng, one.data, "json", others), one.headers)
            case 3 | 4:
                stream[at] = Sent(one.subject, one.data, _other_headers(rng, one.headers))
            case 5:
                stream[at] = Sent(_other_subject(rng, one.subject), one.data, one.headers)
            case _:
                stream[at:at] = rng.sample(stream, rng.randrange(len(stream)))
                del stream[KEPT:]
        if rng.random() < 0.1:
            rng.shuffle(stream)
        stream = stream or list(STREAMS[0])
    return _pack(stream)


def _other_headers(rng: random.Random, headers: dict[str, str]) -> dict[str, str]:
    name = rng.choice(HEADERS)
    if name in headers and rng.random() < 0.2:
        return {key: value for key, value in headers.items() if key != name}
    number = str(rng.choice(NUMBERS + LARGE))
    values = (number, *TEXTS, "0/0", "1/2", "-1/2", f"0/{number}", "a/b", "c=x", f"c={number}", "²")
    return {**headers, name: rng.choice(values)}


def _other_subject(rng: random.Random, subject: str) -> str:
    tokens = subject.split(".")
    tokens[rng.randrange(1, len(tokens))] = rng.choice(
        ("x", "=FF", "=", "row", "ddl", "txn", "a b")
    )
    return ".".join(tokens[: rng.randrange(2, 7)])


def one_sent(rng: random.Random, feed: str) -> Sent:
    """A message of `feed` made wrong: its body, its headers, or both."""
    one = rng.choice(STREAMS[0])
    data, headers, which = one.data, one.headers, rng.randrange(3)
    if which != 1:
        data = mutated(rng, data, "json", [other.data for other in STREAMS[0]])
    if which != 0:
        headers = _other_headers(rng, headers)
    printable = {name: text for name, text in headers.items() if text.isprintable()}
    return Sent(one.subject.replace(f".{FEED}.", f".{feed}."), data, printable)


def _read(data: bytes) -> list[Message]:
    """Raises UnparsablePayload for what is no packed stream: only atheris gives that."""
    try:
        sent = _unpack(data)
    except (ValueError, RecursionError) as error:
        raise UnparsablePayload("no stream") from error
    return [
        Message(one.subject, one.data, one.headers, at) for at, one in enumerate(sent[:KEPT], 1)
    ]


def applier(data: bytes) -> object:
    """What the Applier takes up to its plan; a position only ever goes up."""
    assembler, told = BatchAssembler(FEED, 0, spill_bytes=400, piece_bytes=200), []
    for message in _read(data):
        before = assembler.position
        items = assembler.feed([message])
        assert assembler.position >= before
        told += items
    plan = Decoded()
    for item in told:
        for body in getattr(item, "rows", []):
            plan.add(body, 0)
    return len(told), sum(isinstance(item, Whole) for item in told), plan.rows


def subscriber(data: bytes) -> object:
    """By batches and by rows."""
    found = _read(data)
    tables = Tables(["d.t0", "d.t1"])
    batches = SubscribedBatches(FEED, 0, tables, 500)
    rows = RowAssembler(FEED, None, tables)
    told = [repr(type(item)) for message in found for item in batches.feed([message])]
    return told, [repr(type(item)) for message in found for item in rows.feed([message])]


def reader(data: bytes) -> object:
    return [change.commit_ts for change in ChangeAssembler(FEED, 0).feed(_read(data))]


def tail(data: bytes) -> object:
    """As a Drainer reads the end of its stream, at its start and after each refusal."""
    told: list[object] = []
    for message in _read(data):
        told.append(position.parse_epoch(message))
        if message.subject.startswith(f"changes.{FEED}.ddl."):
            told.append(position._schema_version(message))
            told += [
                position._versions(message, one) for one in (changes.H_EARLY, changes.H_PASSED)
            ]
        elif message.subject == f"changes.{FEED}.txn":
            told.append(position._mark(message, Marker, "s"))
        elif message.subject == f"changes.{FEED}.watermark":
            told.append(position._mark(message, Watermark, "s"))
    return told


def console(data: bytes) -> object:
    """The registry hears each feed for its page: what it can't read it passes over."""
    told: list[object] = []
    for message in _read(data):
        heard.feed_of(message.subject)
        told += [heard.marker(message.data), heard.watermark(message.data)]
        if f".{FEED}.ddl." in message.subject:  # others don't match what is heard
            told.append(heard.ddl(message.subject, message.data, message.headers))
    return [one is None for one in told]


def surfaces() -> list[Surface]:
    seeds = [_pack(stream) for stream in STREAMS]
    return [
        Surface(name, "bytes", seeds, feed, share, make=_make)
        for name, feed, share in (
            ("applier", applier, 10),
            ("subscriber", subscriber, 8),
            ("reader", reader, 4),
            ("tail", tail, 4),
            ("console", console, 4),
        )
    ]
