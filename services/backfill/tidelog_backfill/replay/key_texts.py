"""What the JSON of a spread table's keys says: which are one, and where they go. Pure."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Hashable
from functools import cache
from typing import Any, final

import msgspec
from msgspec.structs import astuple

from tidelog.plan.keys import TableKeys, Unsure
from tidelog_backfill.odd_names import ODD
from tidelog_backfill.replay.routing import Form

NO_TEXT = b"!"
"""Before the JSON of a key with characters that are not UTF-8."""
_ROW = msgspec.json.Decoder(dict[str, Any])
_json = msgspec.json.Encoder().encode


@final
class KeyTexts:
    """`is_exact`: keys are told apart by their JSON as it comes, if nothing in it is base64."""

    def __init__(self, form: Form) -> None:
        columns = {column.name: column for column in form.structure.columns}
        names = form.structure.key_columns
        self._names = names
        self._texts = frozenset(name for name in names if not columns[name].binary)
        self._floats = [name for name in names if columns[name].base in ("float", "double")]
        self.is_exact = not self._floats
        self._keys = TableKeys(form.structure, form.rule)
        self._values = _values_of(names)
        self._plain = _values_of((self._keys.plain,)) if self._keys.plain else None

    def exact(self, text: bytes, b64: list[str]) -> bytes:
        """Equal for keys that are equal letter by letter. Text comes in base64 whenever either
        image of its event needs it, and -0.0 and 0.0 are one."""
        marked = self._texts.intersection(b64)
        if not marked and self.is_exact:
            return text
        row = _ROW.decode(text)
        for name in self._floats:
            row[name] += 0.0
        for name in marked:
            try:
                row[name] = b64decode(row[name]).decode()
            except UnicodeDecodeError:
                return NO_TEXT + text
        return _json(row)

    def of_image(self, image: bytes) -> bytes:
        """A row's key."""
        return _json(dict(zip(self._names, self._values(image), strict=True)))

    def normal(self, exact: bytes) -> Hashable:
        """Equal for keys that the database may take for equal. Raises Unsure."""
        if exact.startswith(NO_TEXT):
            raise Unsure
        if self._plain is not None:
            return self._plain(exact)[0]  # type: ignore[no-any-return]
        return self._keys.first(_ROW.decode(exact), ())


@cache
def _values_of(names: tuple[str, ...]) -> Callable[[bytes], tuple[Any, ...]]:
    """Reads these of a JSON object, and passes over the others if the names allow it."""
    if any(ODD.search(name) for name in names):
        return lambda text: tuple(map(_ROW.decode(text).__getitem__, names))
    fields = [(f"k{n}", Any, msgspec.field(name=name)) for n, name in enumerate(names)]
    decode, values = msgspec.json.Decoder(msgspec.defstruct("Values", fields)).decode, astuple
    return lambda text: values(decode(text))
