"""A long JSON array of DDL jobs, decoded as it comes: some GiB need no more than a few chunks."""

from __future__ import annotations

import re

import msgspec

from tidelog.schema.model import DdlJob, decode_jobs

JOB_BYTES = 64 << 20
"""No job is longer; more without the end of one is no array of jobs."""
TRIES = 8
"""Places tried as the end of the last whole job."""

_KEY = rb'"((?:[^"\\]|\\.)*)"\s*:\s*'
_FIRST_KEYS = re.compile(rb"\s*\{\s*" + _KEY + rb"[-+.\w]+\s*,\s*" + _KEY)


class JobStream:
    """Where one job ends and the next begins is guessed by the keys that jobs begin with, and is
    right when all before it is JSON: then its brackets are in pairs."""

    def __init__(self) -> None:
        self._rest = b""
        self._begun = False
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
            except msgspec.DecodeError:
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
            first, second = (re.escape(key) for key in keys.groups())
            self._next_job = re.compile(
                rb',\s*(?=\{\s*"' + first + rb'"\s*:\s*[-+.\w]+\s*,\s*"' + second + rb'"\s*:)'
            )
        return self._next_job
