"""MySQL's packed decimal (as TiDB's datum holds it): precision, scale, base-10^9 words.

The value is text, `-12.50`, with exactly `scale` fraction digits; neither float nor Decimal
touches it, so nothing is rounded.
"""

from __future__ import annotations

from typing import Final

from tidelog.rows.errors import Malformed

_WORD_DIGITS: Final = 9
_BYTES_OF: Final = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
"""Bytes that a group of 0..9 digits takes."""
MAX_DIGITS: Final = 81
"""TiDB's decimals have at most 9 words of 9 digits."""
MAX_SCALE: Final = 72


class _Layout:
    """Byte and digit counts of one (precision, scale).

    `words`, from the last one on: its bits, what its digits stay below, what its last digit is
    worth in the whole number.
    """

    __slots__ = ("flip", "groups", "int_digits", "invert", "scale", "size", "words")

    def __init__(self, precision: int, scale: int) -> None:
        int_digits = precision - scale
        widths = [int_digits % _WORD_DIGITS] + [_WORD_DIGITS] * (int_digits // _WORD_DIGITS)
        widths += [_WORD_DIGITS] * (scale // _WORD_DIGITS) + [scale % _WORD_DIGITS]
        self.groups: list[tuple[int, int]] = [(w, _BYTES_OF[w]) for w in widths if w]
        self.size: int = sum(size for _, size in self.groups)
        self.words: list[tuple[int, int, int]] = []
        worth = 1
        for digits, size in reversed(self.groups):
            self.words.append((8 * size, 10**digits, worth))
            worth *= 10**digits
        self.int_digits: int = int_digits
        self.scale: int = scale
        self.invert: int = (1 << 8 * self.size) - 1
        self.flip: int = 1 << (8 * self.size - 1)


_layouts: dict[int, _Layout] = {}
"""By precision << 8 | scale, as both stand on the wire."""


def _layout(precision: int, scale: int) -> _Layout:
    found = _layouts.get(precision << 8 | scale)
    if found is None:
        if not 0 < precision <= MAX_DIGITS or not 0 <= scale <= min(precision, MAX_SCALE):
            raise Malformed(f"no decimal has precision {precision} and scale {scale}")
        found = _layouts[precision << 8 | scale] = _Layout(precision, scale)
    return found


def read_decimal(buf: bytes, p: int) -> tuple[str, int]:
    """The decimal behind flag 6: precision u8, scale u8, packed words."""
    layout = _layouts.get(buf[p] << 8 | buf[p + 1]) or _layout(buf[p], buf[p + 1])
    p += 2
    end = p + layout.size
    if end > len(buf):
        raise Malformed("a decimal is longer than the row")
    bits = int.from_bytes(buf[p:end], "big")
    negative = not bits & layout.flip
    if negative:
        bits ^= layout.invert
    bits ^= layout.flip
    number = 0
    for width, limit, worth in layout.words:
        rest = bits >> width
        word = bits ^ rest << width
        if word >= limit:
            raise Malformed("a decimal word has too many digits")
        number += word * worth
        bits = rest
    text = str(number)
    scale = layout.scale
    if scale:
        if len(text) <= scale:
            text = text.zfill(scale + 1)
        text = f"{text[:-scale]}.{text[-scale:]}"
    if negative and number:
        return f"-{text}", end
    return text, end


def put_decimal(out: bytearray, text: str, precision: int, scale: int) -> None:
    """Write `text` as a decimal of this precision and scale. Raises Malformed if it doesn't fit."""
    layout = _layout(precision, scale)
    negative = text.startswith("-")
    whole, _, fraction = text.lstrip("+-").partition(".")
    digits = whole.lstrip("0").rjust(layout.int_digits, "0") + fraction.ljust(scale, "0")
    missing = not whole and not fraction
    if missing or len(digits) != precision or not digits.isascii() or not digits.isdigit():
        raise Malformed(f"{text!r} is no decimal({precision},{scale})")
    bits = 0
    at = 0
    for count, size in layout.groups:
        bits = bits << 8 * size | int(digits[at : at + count])
        at += count
    bits ^= layout.flip
    if negative and digits.strip("0"):
        bits ^= layout.invert
    out.append(precision)
    out.append(scale)
    out += bits.to_bytes(layout.size, "big")
