"""Where the upstream's DDL jobs come from (`ports.DdlHistory`): TiDB, a file, or the registry."""

from __future__ import annotations

import lzma
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import msgspec

from tidelog import subjects
from tidelog.actor import off_loop
from tidelog.errors import ConfigError, Corrupt, Unavailable, UnparsablePayload
from tidelog.messages import DdlAppend, DdlJobs, DdlList, Empty, decode_reply, encode
from tidelog.ports import Bus, DdlHistory
from tidelog.schema.model import DdlJob, decode_jobs

PAGE = 200
"""Jobs a page; TiDB refuses a limit above 1024 and a start_job_id of 0."""
HTTP_S = 30.0
REQUEST_S = 5.0


def open_history(url: str, bus: Bus, cluster: str) -> DdlHistory:
    """`embedded`, `file:PATH`, or `http(s)://HOST:PORT` of a TiDB's status API.

    Raises ConfigError for anything else.
    """
    if url == "embedded":
        return EmbeddedHistory(bus, cluster)
    if url.startswith("file:"):
        return FileHistory(url.removeprefix("file:"))
    if urlsplit(url).scheme in ("http", "https") and urlsplit(url).netloc:
        return HttpHistory(url)
    raise ConfigError(
        f"{url!r} is no DDL history", hint="embedded, file:PATH or http://HOST:PORT of a TiDB"
    )


class FileHistory:
    """A JSON array of jobs as TiDB's status API gives it, `.json` or `.json.xz`; read anew at each
    call, so that a file may grow."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    async def jobs(self, after_job_id: int) -> AsyncIterator[list[DdlJob]]:
        """Raises ConfigError (can't be read), Corrupt (is not what it should be)."""
        known = await off_loop(self._read)
        newer = [job for job in known if job.id > after_job_id]
        for start in range(0, len(newer), PAGE):
            yield newer[start : start + PAGE]

    def _read(self) -> list[DdlJob]:
        try:
            data = self._path.read_bytes()
            if self._path.suffix == ".xz":
                data = lzma.decompress(data)
        except (OSError, lzma.LZMAError) as error:
            raise ConfigError(f"the DDL history {self._path} can't be read: {error}") from error
        try:
            return decode_jobs(data)
        except msgspec.DecodeError as error:
            raise Corrupt(f"the DDL history {self._path} holds something else: {error}") from error


class HttpHistory:
    """`GET /ddl/history` of a TiDB's status API.

    Without arguments it answers every job, oldest first. With `start_job_id` and `limit` it walks
    back from that job (fixtures README): so after a first full read only what is new is fetched,
    from the newest job back to the known one.
    """

    def __init__(self, url: str, *, timeout_s: float = HTTP_S) -> None:
        self._url = url.rstrip("/") + "/ddl/history"
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)

    async def jobs(self, after_job_id: int) -> AsyncIterator[list[DdlJob]]:
        """Pages newest first, unless everything is asked for. Raises Unavailable."""
        if after_job_id <= 0:
            everything = await self._get({})
            for first in range(0, len(everything), PAGE):
                yield everything[first : first + PAGE]
            return
        start_id = 0
        while True:
            start = {"start_job_id": start_id} if start_id else {}
            page = await self._get({"limit": PAGE} | start)
            newer = [j for j in page if j.id > after_job_id and not 0 < start_id <= j.id]
            if newer:
                yield newer
            lowest = min((job.id for job in page), default=0)
            if len(page) < PAGE or lowest <= after_job_id or 0 < start_id <= lowest:
                return
            start_id = lowest

    async def _get(self, query: dict[str, int]) -> list[DdlJob]:
        try:
            async with (
                aiohttp.ClientSession(timeout=self._timeout) as session,
                session.get(self._url, params=query) as answer,
            ):
                body = await answer.read()
                if answer.status != 200:
                    said = body[:200].decode(errors="replace")
                    raise Unavailable(f"{self._url} answered {answer.status}: {said}")
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise Unavailable(
                f"{self._url} can't be asked: {error or 'no answer in time'}"
            ) from error
        try:
            return decode_jobs(body) if body.strip() not in (b"", b"null") else []
        except msgspec.DecodeError as error:
            raise Unavailable(f"{self._url} answered something else: {error}") from error


class EmbeddedHistory:
    """The registry's own store, for upstreams that are no TiDB."""

    def __init__(self, bus: Bus, cluster: str) -> None:
        self._bus = bus
        self._cluster = cluster

    async def jobs(self, after_job_id: int) -> AsyncIterator[list[DdlJob]]:
        """Oldest first. Raises Unavailable."""
        while True:
            answer = await self._bus.request(
                subjects.registry(self._cluster, "ddl-list"),
                encode(DdlList(after_job_id, PAGE)),
                timeout_s=REQUEST_S,
            )
            page = decode_reply(answer.data, DdlJobs)
            jobs = [_job(raw) for raw in page.jobs]
            if jobs:
                yield jobs
                after_job_id = max(job.id for job in jobs)
            if not page.more or not jobs:
                return

    async def append(self, job: bytes, *, after: int | None = None) -> None:
        """Keep one job (TiDB's JSON) durably; the same one twice is fine. Raises Conflict if its
        id is taken by another, or if `after` is given and is not the newest job's id (0 = none);
        Unavailable (unknown: append again)."""
        answer = await self._bus.request(
            subjects.registry(self._cluster, "ddl-append"),
            encode(DdlAppend(msgspec.Raw(job), after)),
            timeout_s=REQUEST_S,
        )
        decode_reply(answer.data, Empty)


def _job(raw: msgspec.Raw) -> DdlJob:
    try:
        return msgspec.json.decode(raw, type=DdlJob)
    except msgspec.DecodeError as error:
        raise UnparsablePayload(f"a DDL job that can't be read: {error}") from error
