"""Where the upstream's DDL jobs come from (`ports.DdlHistory`): TiDB, a file, or the registry."""

from __future__ import annotations

import lzma
from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

import aiohttp
import msgspec

from tidelog import subjects
from tidelog.actor import off_loop
from tidelog.errors import ConfigError, Corrupt, Unavailable, UnparsablePayload
from tidelog.messages import DdlAppend, DdlJobs, DdlList, Empty, decode_reply, encode
from tidelog.ports import Bus, DdlHistory, Ports
from tidelog.real.pem import client_context
from tidelog.schema.job_stream import JobStream, place_of
from tidelog.schema.model import DdlJob, decode_jobs
from tidelog.security.tls import TlsFiles
from tidelog.unreadable import NOT_READABLE

PAGE = 512
"""Jobs a page; TiDB refuses a limit above 1024 and a start_job_id of 0."""
WHOLE_BYTES = 32 << 20
CHUNK_BYTES = 4 << 20
HTTP_S = 30.0
_TLS_HINT = (
    "does it speak TLS? upstream.security names who vouches for it (ssl-ca) and our certificate"
    " (ssl-cert, ssl-key); what can't name them reads its saved answer: file:PATH"
)
REQUEST_S = 5.0


def open_history(
    url: str, bus: Bus | None, cluster: str, tls: TlsFiles | None = None
) -> DdlHistory:
    """`embedded` (of the registry that is asked over `bus`), `file:PATH`, or `http(s)://HOST:PORT`
    of a TiDB's status API, the latter with `tls`.

    Raises ConfigError for anything else, and where the files of `tls` can't be used.
    """
    if url == "embedded" and bus is not None:
        return EmbeddedHistory(bus, cluster)
    if url.startswith("file:"):
        return FileHistory(url.removeprefix("file:"))
    if urlsplit(url).scheme in ("http", "https") and urlsplit(url).netloc:
        return HttpHistory(url, tls)
    raise ConfigError(
        f"{url!r} is no DDL history", hint="embedded, file:PATH or http://HOST:PORT of a TiDB"
    )


def with_ddl_history(ports: Ports, history: DdlHistory) -> Ports:
    """The ports with this history, whatever is asked for, in each of their directories, too."""
    return replace(
        ports,
        open_ddl_history=lambda _url, _tls: history,
        within=lambda path: with_ddl_history(ports.within(path), history),
    )


class FileHistory:
    """A JSON array of jobs as TiDB's status API gives it, `.json` or `.json.xz`; read anew at each
    call, so that a file may grow. One of more than `WHOLE_BYTES` is decoded as it is read, where
    it is not packed from about the jobs that were asked for on; they must come in rising order of
    their ids, as TiDB lists them."""

    def __init__(self, path: str, *, whole_bytes: int = WHOLE_BYTES) -> None:
        self._path = Path(path)
        self._whole_bytes = whole_bytes

    async def jobs(self, after_job_id: int) -> AsyncIterator[list[DdlJob]]:
        """Oldest first. Raises ConfigError (can't be read), Corrupt (is not what it should be)."""
        file = await off_loop(self._open)
        try:
            last = after_job_id
            async for jobs in self._read(file, after_job_id):
                newer = [job for job in jobs if job.id > after_job_id]
                for start in range(0, len(newer), PAGE):
                    page = newer[start : start + PAGE]
                    if page[0].id < last or any(a.id > b.id for a, b in pairwise(page)):
                        raise Corrupt(
                            f"the DDL history {self._path}: job {page[0].id} or one of the next"
                            f" {len(page)} does not come in rising order of ids",
                            hint="sort it: jq 'sort_by(.id)'",
                        )
                    last = page[-1].id
                    yield page
        finally:
            await off_loop(file.close)

    async def _read(self, file: IO[bytes], after_job_id: int) -> AsyncIterator[list[DdlJob]]:
        try:
            begin = await off_loop(file.read, self._whole_bytes)
            if len(begin) < self._whole_bytes:
                yield sorted(await off_loop(decode_jobs, begin), key=lambda job: job.id)
                return
            del begin
            place = await off_loop(self._place, file, after_job_id)
            await off_loop(file.seek, place)
            stream = JobStream(begun=place > 0)
            while data := await off_loop(file.read, CHUNK_BYTES):
                yield await off_loop(stream.feed, data)
            yield await off_loop(stream.finish)
        except NOT_READABLE as error:
            raise Corrupt(f"the DDL history {self._path} holds something else: {error}") from error
        except (OSError, EOFError, lzma.LZMAError) as error:
            raise ConfigError(f"the DDL history {self._path} can't be read: {error}") from error

    def _place(self, file: IO[bytes], after_job_id: int) -> int:
        """Where the jobs begin that were asked for, or some before them."""
        if not after_job_id or isinstance(file, lzma.LZMAFile):
            return 0
        file.seek(0)
        return place_of(file, after_job_id, min(CHUNK_BYTES, self._whole_bytes))

    def _open(self) -> IO[bytes]:
        try:
            if self._path.suffix == ".xz":
                return lzma.open(self._path)
            return self._path.open("rb")
        except OSError as error:
            raise ConfigError(f"the DDL history {self._path} can't be read: {error}") from error


class HttpHistory:
    """`GET /ddl/history` of a TiDB's status API.

    With `start_job_id` and `limit` it walks back from that job (fixtures README); without both it
    answers everything at once, which a TiDB of many jobs has no memory for. So the newest page
    comes first, and where it doesn't reach back far enough, what lies below it is asked for from
    the oldest on, in ranges of ids that fit into a page.

    A TiDB before 6.3 knows no `start_job_id` and gives the newest page whatever is asked for: it is
    asked for everything, which it reads for each page, too.

    With `https`, whoever the machine trusts vouches for it where `tls` names nobody.
    """

    def __init__(self, url: str, tls: TlsFiles | None = None, *, timeout_s: float = HTTP_S) -> None:
        """Raises ConfigError where the files of `tls` can't be used."""
        self._url = url.rstrip("/") + "/ddl/history"
        files = tls or TlsFiles()
        self._tls = client_context(files) if files.on or url.startswith("https:") else True
        self._name = next(iter(tls.cert_allowed_cn), None) if tls is not None else None
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)

    async def jobs(self, after_job_id: int) -> AsyncIterator[list[DdlJob]]:
        """Oldest first. Raises Unavailable."""
        async with aiohttp.ClientSession(timeout=self._timeout) as session:
            newest = await self._page(session, {"limit": PAGE})
            async for page in self._below(session, newest, after_job_id):
                yield page
        newer = [job for job in newest if job.id > after_job_id]
        if newer:
            yield newer

    async def _below(
        self, session: aiohttp.ClientSession, newest: list[DdlJob], after_job_id: int
    ) -> AsyncIterator[list[DdlJob]]:
        """What lies between `after_job_id` and the newest page."""
        top = newest[0].id - 1 if len(newest) == PAGE else after_job_id
        low, span = after_job_id, PAGE
        if low < top:
            span = max(PAGE - 1, (newest[-1].id - top) * 7 // 8)
        while low < top:
            high = min(low + span, top)
            # Whether the start itself is part of the answer is nowhere written down.
            page = await self._page(session, {"start_job_id": high + 1, "limit": PAGE})
            if page and page[-1].id > high + 1:
                async for rest in self._all(session, low, top):
                    yield rest
                return
            inside = [job for job in page if low < job.id <= high]
            if len(page) == PAGE and page[0].id > low + 1 and span >= PAGE:
                span = max(PAGE - 1, span // 2)
                continue
            if inside:
                yield inside
            low = high
            if len(inside) < PAGE // 2:
                span *= 2

    async def _all(
        self, session: aiohttp.ClientSession, low: int, top: int
    ) -> AsyncIterator[list[DdlJob]]:
        """What lies above `low` up to `top`, of everything at once."""
        jobs = [job for job in await self._page(session, {}) if low < job.id <= top]
        for start in range(0, len(jobs), PAGE):
            yield jobs[start : start + PAGE]

    async def _page(self, session: aiohttp.ClientSession, query: dict[str, int]) -> list[DdlJob]:
        """Oldest first."""
        return sorted(await self._get(session, query), key=lambda job: job.id)

    async def _get(self, session: aiohttp.ClientSession, query: dict[str, int]) -> list[DdlJob]:
        try:
            async with session.get(
                self._url, params=query, ssl=self._tls, server_hostname=self._name
            ) as answer:
                body = await answer.read()
                if answer.status != 200:
                    said = body[:200].decode(errors="replace")
                    raise Unavailable(f"{self._url} answered {answer.status}: {said}")
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise Unavailable(
                f"{self._url} can't be asked: {error or 'no answer in time'}",
                hint=_TLS_HINT if self._url.startswith("https:") else "",
            ) from error
        try:
            return await off_loop(decode_jobs, body) if body.strip() not in (b"", b"null") else []
        except NOT_READABLE as error:
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
    except NOT_READABLE as error:
        raise UnparsablePayload(f"a DDL job that can't be read: {error}") from error
