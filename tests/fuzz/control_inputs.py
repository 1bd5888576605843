"""Bodies of the control subjects: what a service decodes, and the command line of its answers."""

from __future__ import annotations

import random
from types import ModuleType
from typing import Any

import msgspec
from msgspec import inspect

from tests.fuzz.mutation import mutated
from tests.fuzz.surface import Surface
from tidelog import applier_control, drainer_control, messages, pump_control, rewind
from tidelog.bulk import control as bulk_control
from tidelog.messages import decode, decode_reply, encode

MODULES = (messages, pump_control, drainer_control, applier_control, rewind, bulk_control)
DEPTH = 4


def _kinds(module: ModuleType) -> list[type[msgspec.Struct]]:
    return [
        one
        for one in vars(module).values()
        if isinstance(one, type)
        and issubclass(one, msgspec.Struct)
        and one.__module__ == module.__name__
    ]


KINDS = [kind for module in MODULES for kind in _kinds(module)]


PLAIN: dict[type[inspect.Type], Any] = {
    inspect.IntType: 5,
    inspect.FloatType: 1.5,
    inspect.BoolType: True,
    inspect.StrType: "pump-1",
    inspect.BytesType: "AAAA",
    inspect.RawType: {"id": 5, "type": 3},
}


def example(kind: Any, depth: int = 0) -> Any:
    """A value of a type, plain: every field set, lists and maps with one element."""
    match inspect.type_info(kind) if not isinstance(kind, inspect.Type) else kind:
        case inspect.StructType(fields=fields, tag_field=tag_field, tag=tag):
            tagged = {tag_field: tag} if tag_field else {}
            if depth > DEPTH:
                fields = tuple(field for field in fields if field.required)
            return tagged | {f.encode_name: example(f.type, depth + 1) for f in fields}
        case inspect.ListType(item_type=item) | inspect.VarTupleType(item_type=item):
            return [example(item, depth + 1)]
        case inspect.TupleType(item_types=items):
            return [example(item, depth + 1) for item in items]
        case inspect.DictType(value_type=value):
            return {"key": example(value, depth + 1)}
        case inspect.UnionType(types=types):
            return example(types[0], depth)
        case inspect.LiteralType(values=values):
            return values[0]
        case inspect.Metadata(type=inner):
            return example(inner, depth)
        case other:
            return PLAIN.get(type(other))


SEEDS = [msgspec.json.encode(example(kind)) for kind in KINDS]


def _make(rng: random.Random) -> bytes:
    """The first byte says which kind."""
    at = rng.randrange(len(KINDS))
    seed = SEEDS[at] if rng.random() < 0.9 else rng.choice(SEEDS)
    return bytes([at]) + mutated(rng, seed, "json", SEEDS)


def question(data: bytes) -> object:
    """What is taken can be told to others: the registry does, for one."""
    kind = KINDS[data[0] % len(KINDS)] if data else messages.Empty
    found = decode(data[1:], kind)
    again = decode(encode(found), kind)
    assert encode(again) == encode(found)
    return kind.__name__, found


def answer(data: bytes) -> object:
    kind = KINDS[data[0] % len(KINDS)] if data else messages.Empty
    return kind.__name__, decode_reply(data[1:], kind)


def surfaces() -> list[Surface]:
    seeds = [bytes([at]) + seed for at, seed in enumerate(SEEDS)]
    return [
        Surface("question", "json", seeds, question, 14, make=_make),
        Surface("answer", "json", seeds, answer, 4, make=_make),
    ]
