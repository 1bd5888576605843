"""Valid inputs made wrong: by the bytes, and by the structure of what they are (protobuf, JSON,
text). Structure-aware, because bytes at random seldom get past a parser's first look."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, Literal

import msgspec

Form = Literal["bytes", "proto", "json", "text"]
MAX_BYTES = 64 << 10
"""Of one input."""
NUMBERS = (0, 1, -1, 127, 128, 255, 2**31 - 1, 2**31, -(2**31), 2**32, 2**53 + 1)
LARGE = (2**63 - 1, 2**63, 2**64 - 1, 2**64, -(2**63) - 1, 10**40)
TEXTS = ("", "\0", "a" * 300, "…", "../..", ">", "*", "a.b", "`", "'", "\u2028", "=FF", "💥" * 9)
SMALL_BYTES = (b"", b"\0", b"\xff", b"\x80" * 11, b"[" * 3000, b'{"a":' * 1500, b"\xed\xa0\x80")
_TREE = msgspec.json.Decoder()
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def mutated(rng: random.Random, data: bytes, form: Form, others: Sequence[bytes] = (b"",)) -> bytes:
    """`data` made wrong in one to four places; `others`: where pieces to splice in come from."""
    if rng.random() < 0.03:
        return rng.randbytes(rng.randrange(200))
    by_form: dict[str, Callable[[random.Random, bytes], bytes]] = {
        "proto": _proto,
        "json": _json,
        "text": _text,
    }
    structural = by_form.get(form)
    for _ in range(1 + int(rng.expovariate(1.2))):
        if structural is not None and rng.random() < 0.7:
            data = structural(rng, data)
        else:
            data = _bytes(rng, data, rng.choice(others))
    return data[:MAX_BYTES]


def _bytes(rng: random.Random, data: bytes, other: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    end = min(len(data), at + 1 + int(rng.expovariate(0.1)))
    match rng.randrange(8):
        case 0 if data:
            at = min(at, len(data) - 1)
            return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]
        case 1:
            return data[:at]
        case 2:
            return data[:at] + data[end:]
        case 3:
            return data[:at] + rng.choice(SMALL_BYTES) + data[at:]
        case 4:
            start = rng.randrange(len(other) + 1)
            return data[:at] + other[start : start + rng.randrange(64)] + data[end:]
        case 5:
            return data[:at] + data[at:end] * rng.randrange(2, 40) + data[end:]
        case 6:
            return data[:at] + rng.randbytes(end - at) + data[end:]
        case _:
            size = rng.choice((2, 4, 8))
            number = rng.choice(NUMBERS + LARGE) & (1 << 8 * size) - 1
            return data[:at] + number.to_bytes(size, rng.choice(("little", "big"))) + data[end:]


def _varint(number: int) -> bytes:
    number &= 2**64 - 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def _fields(data: bytes) -> list[tuple[int, bytes]] | None:
    """(tag, what follows it without a length) of a protobuf message; None if it is none."""
    found: list[tuple[int, bytes]] = []
    at = 0

    def varint() -> int:
        nonlocal at
        number = shift = 0
        while at < len(data) and shift < 70:
            byte = data[at]
            at += 1
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
            shift += 7
        raise ValueError("no varint")

    try:
        while at < len(data):
            tag = varint()
            if not tag >> 3:
                return None
            match tag & 7:
                case 0:
                    found.append((tag, _varint(varint())))
                    continue
                case 2:
                    size = varint()
                case 1:
                    size = 8
                case 5:
                    size = 4
                case _:
                    return None
            if at + size > len(data):
                return None
            found.append((tag, data[at : at + size]))
            at += size
    except ValueError:
        return None
    return found


def _joined(fields: list[tuple[int, bytes]]) -> bytes:
    return b"".join(
        _varint(tag) + (_varint(len(body)) if tag & 7 == _BYTES else b"") + body
        for tag, body in fields
    )


def _proto(rng: random.Random, data: bytes) -> bytes:
    fields = _fields(data)
    if not fields:
        return _bytes(rng, data, b"")
    at = rng.randrange(len(fields))
    tag, body = fields[at]
    if tag & 7 == _BYTES and rng.random() < 0.6:  # further in
        fields[at] = (tag, _proto(rng, body))
        return _joined(fields)
    match rng.randrange(6):
        case 0:
            del fields[at]
        case 1:
            fields.insert(rng.randrange(len(fields) + 1), fields[at])
        case 2:
            rng.shuffle(fields)
        case 3:
            fields[at] = (tag & ~7 | rng.choice((_VARINT, _FIXED64, _BYTES, _FIXED32, 3, 7)), body)
        case 4:
            fields[at] = (rng.randrange(1, 12) << 3 | tag & 7, body)
        case _:
            number = rng.choice(NUMBERS + LARGE)
            fields[at] = (tag & ~7, _varint(number)) if tag & 7 == _VARINT else (tag, b"")
    return _joined(fields)


def _json(rng: random.Random, data: bytes) -> bytes:
    try:
        tree = _TREE.decode(data)
    except (ValueError, RecursionError):
        return _bytes(rng, data, b"")
    text = msgspec.json.encode(_branch(rng, tree))
    # What the encoder refuses comes in by its text.
    text = text.replace(b"7777777", str(rng.choice(LARGE)).encode())
    return text.replace(b'"DEEP"', rng.choice((b"[" * 2000 + b"]" * 2000, b"[" * 9000)))


def _branch(rng: random.Random, tree: Any) -> Any:
    """The tree with one node of it made wrong."""
    if isinstance(tree, dict) and tree and rng.random() < 0.85:
        key = rng.choice(list(tree))
        if rng.random() < 0.15:
            return {name: value for name, value in tree.items() if name != key}
        if rng.random() < 0.1:
            return {**tree, rng.choice(TEXTS): tree[key]}
        return {**tree, key: _branch(rng, tree[key])}
    if isinstance(tree, list) and tree and rng.random() < 0.85:
        at = rng.randrange(len(tree))
        if rng.random() < 0.2:
            return tree[:at] + tree[at:] * rng.choice((0, 2, 9))
        return [*tree[:at], _branch(rng, tree[at]), *tree[at + 1 :]]
    if isinstance(tree, int) and not isinstance(tree, bool) and rng.random() < 0.7:
        return rng.choice((*NUMBERS, tree + 1, tree - 1, 7777777, 7777777))
    if isinstance(tree, str) and rng.random() < 0.7:
        return rng.choice((*TEXTS, tree + "x", tree[:-1], tree.upper(), "DEEP"))
    return rng.choice((None, True, 1.5, 7777777, "x", [], {}, "DEEP", rng.choice(NUMBERS)))


def _text(rng: random.Random, data: bytes) -> bytes:
    lines = data.decode("utf-8", "replace").split("\n")
    at = rng.randrange(len(lines))
    words = lines[at].split(" ")
    word = rng.randrange(len(words))
    match rng.randrange(6):
        case 0:
            del lines[at]
        case 1:
            lines.insert(rng.randrange(len(lines) + 1), lines[at])
        case 2:
            words[word] = str(rng.choice((*TEXTS, *NUMBERS, *LARGE, "[", '"', "'''", "{", "= 1")))
            lines[at] = " ".join(words)
        case 3:
            words.insert(word, rng.choice(words))
            lines[at] = " ".join(words)
        case 4:
            key, found, _ = lines[at].partition("=")
            value = rng.choice(("[]", "{}", "true", "1e9", '""', "nan", "-1", "[[", "1979-05-27"))
            lines[at] = f"{key}= {value}" if found else f"[{lines[at]}]"
        case _:
            lines[at] = lines[at] * rng.randrange(2, 30)
    return "\n".join(lines).encode()
