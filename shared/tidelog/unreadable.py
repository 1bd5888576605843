"""What msgspec raises for bytes that are not what was asked for."""

from __future__ import annotations

import msgspec

NOT_READABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Its own error; text that is no UTF-8; brackets in brackets, more than the stack takes."""
