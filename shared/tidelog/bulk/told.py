"""What a bulk job tells while it runs, a JSON line each; the last one is its Report or Failed."""

from __future__ import annotations

from typing import cast

import msgspec

from tidelog.errors import TidelogError, UnparsablePayload, exit_code, told_error
from tidelog.unreadable import NOT_READABLE

MOST_WORDS = 8000
"""Characters of an error: a line fits into a message, whatever traceback somebody quotes."""


def cut(text: str, most: int) -> str:
    """Its begin and its end, which say more than what is between."""
    half = most // 2
    return text if len(text) <= most else f"{text[:half]} [...] {text[-half:]}"


class Progress(msgspec.Struct, frozen=True, tag_field="is", tag="progress"):
    """`stage`: a word for people, as "reading", "planning", "replaying". `done` of `total` in
    `unit`s (bytes, chunks, rows, …) of that stage; total 0 = not known. Of the whole job so far:
    `rows` taken, up to which `commit_ts` the target holds everything, of how many `segments` how
    many are done. So many pieces are `lasting`: a further try does not do them again. Of what the
    Pumps have it needs nothing up to `needs_after`. `note`: whatever else, for people."""

    stage: str
    done: int = 0
    total: int = 0
    unit: str = ""
    rows: int = 0
    commit_ts: int = 0
    segment: int = 0
    segments: int = 0
    note: str = ""
    lasting: int = 0
    needs_after: int = 0


class Report(msgspec.Struct, frozen=True, tag_field="is", tag="report"):
    """It is done. The target holds everything with commit_ts <= `commit_ts`, and the stream goes on
    from there. `rows` were read and `written` of them remained after folding. `skipped_bytes` of
    damaged records were passed by, on request. `left_out`: what is not in the target, by reason.
    `guarantee`: of a backfill, what the copy is worth."""

    commit_ts: int
    began_ts: int = 0
    rows: int = 0
    written: int = 0
    tables: int = 0
    ddls: int = 0
    segments: int = 0
    seconds: float = 0.0
    skipped_bytes: int = 0
    left_out: dict[str, int] = {}
    guarantee: str = ""
    warnings: list[str] = []


class Failed(msgspec.Struct, frozen=True, tag_field="is", tag="failed"):
    """It ended by an error: its class by name, and the process's exit code. `bases` are that
    class's, nearest first: who is told may not know the class itself."""

    code: str
    message: str
    hint: str = ""
    exit_code: int = 1
    bases: list[str] = []

    @classmethod
    def of(cls, error: BaseException) -> Failed:
        if not isinstance(error, TidelogError):
            error = TidelogError(f"{type(error).__name__}: {error}")
        code, *bases = error.codes
        return cls(code, cut(error.message, MOST_WORDS), error.hint, exit_code(error), bases)

    def error(self) -> TidelogError:
        return told_error([self.code, *self.bases], self.message, hint=self.hint)


Line = Progress | Report | Failed


def encode_line(line: Line) -> bytes:
    return msgspec.json.encode(line) + b"\n"


def decode_line(data: bytes) -> Line:
    """Raises UnparsablePayload."""
    try:
        return cast(Line, msgspec.json.decode(data, type=Line))
    except NOT_READABLE as error:
        raise UnparsablePayload(f"a job's line that can't be read: {error}") from error
