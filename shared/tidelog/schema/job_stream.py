"""A long JSON array of DDL jobs, decoded as it comes: some GiB need no more than a few chunks."""

from __future__ import annotations

import contextlib
import os
import re
from itertools import islice
from typing import IO

import msgspec

from tidelog.schema.model import DdlJob, decode_jobs
from tidelog.unreadable import NOT_READABLE

JOB_BYTES = 64 << 20
"""No job is longer; more without the end of one is no array of jobs."""
TRIES = 8
"""Places tried as the end of the last whole job, or as the beginning of the first."""

_KEY = rb'"((?:[^"\\]|\\.)*)"\s*:\s*'
_FIRST_KEYS = re.compile(rb"\s*\{\s*" + _KEY + rb"[-+.\w]+\s*,\s*" + _KEY)


class JobStream:
    """Where one job ends and the next begins is guessed by the keys that jobs begin with, and is
    right when all before it is JSON: then its brackets are in pairs. `begun`: what is fed begins
    with a job, not with the array."""

    def __init__(self, *, begun: bool = False) -> None:
        self._rest = b""
        self._begun = begun
        self._next_job: re.Pattern[bytes] | None = None

    def feed(self, data: bytes) -> list[DdlJob]:
        """The jobs that are whole by now. Raises msgspec.DecodeError."""
        self._rest += data
        if not self._begin():
            return []
        cuts = [match.start() for match in self._pattern().finditer(self._rest)]
        for cut in reversed(cuts[-TRIES:]):
            try:
                jobs = decode_jobs(b"[" + self._rest[:cut] + b"]")
            except msgspec.ValidationError:
                raise
            except NOT_READABLE:
                continue
            self._rest = self._rest[cut + 1 :]
            return jobs
        if len(self._rest) > JOB_BYTES:
            raise msgspec.DecodeError(f"no job ends within {JOB_BYTES} bytes")
        return []

    def finish(self) -> list[DdlJob]:
        """The last jobs, once everything was fed. Raises msgspec.DecodeError."""
        return decode_jobs((b"[" if self._begun else b"") + self._rest)

    def _begin(self) -> bool:
        text = self._rest.lstrip()
        if not self._begun and text:
            if not text.startswith(b"["):
                raise msgspec.DecodeError("it is no array")
            self._begun, self._rest = True, text[1:]
        return self._begun

    def _pattern(self) -> re.Pattern[bytes]:
        """A comma before a job: one begins with the same two keys as the first, and what lies
        inside of a job (columns, indexes) with others."""
        if self._next_job is None:
            keys = _FIRST_KEYS.match(self._rest)
            if keys is None:
                return re.compile(rb",\s*(?=\{)")
            self._next_job = _next_job(keys)
        return self._next_job


def place_of(file: IO[bytes], job_id: int, window: int) -> int:
    """Where in an array of jobs in rising order of their ids to begin reading for those above
    `job_id`: at a job that is not above it, or at 0, the array's own beginning. Found by halving,
    in pieces of `window` bytes."""
    keys = _FIRST_KEYS.match(file.read(window).lstrip().removeprefix(b"["))
    low, high = 0, file.seek(0, os.SEEK_END)
    while keys is not None and high - low > window:
        middle = (low + high) // 2
        file.seek(middle)
        found = _first_job(file.read(window), _next_job(keys))
        if found is not None and found[1] <= job_id:
            low = middle + found[0]
        else:
            high = middle
    return low


def _first_job(data: bytes, next_job: re.Pattern[bytes]) -> tuple[int, int] | None:
    """Where a job begins in a piece out of the middle, about the first that is whole, and its
    id."""
    for match in islice(next_job.finditer(data), TRIES):
        with contextlib.suppress(msgspec.DecodeError):
            if jobs := JobStream(begun=True).feed(data[match.end() :]):
                return match.end(), jobs[0].id
    return None


def _next_job(keys: re.Match[bytes]) -> re.Pattern[bytes]:
    """The comma before a job that begins with the same keys."""
    first, second = (re.escape(key) for key in keys.groups())
    return re.compile(
        rb',\s*(?=\{\s*"' + first + rb'"\s*:\s*[-+.\w]+\s*,\s*"' + second + rb'"\s*:)'
    )
