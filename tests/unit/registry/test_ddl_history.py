"""DDL histories: a file as TiDB gives it, a TiDB's status API that walks back."""

from __future__ import annotations

import asyncio
import json
import lzma
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from io import BytesIO
from pathlib import Path
from random import Random

import msgspec
import pytest
from aiohttp import ClientSession, web

from tests.fixtures.capture import ddl_history_json
from tidelog import subjects
from tidelog.ddl_history import PAGE, EmbeddedHistory, FileHistory, HttpHistory, open_history
from tidelog.errors import ConfigError, Corrupt, Unavailable, UnparsablePayload
from tidelog.messages import DdlJobs
from tidelog.ports import DdlHistory, Request
from tidelog.schema.job_stream import JobStream, place_of
from tidelog.schema.model import DdlJob, decode_jobs
from tidelog.sim import World, run

JOBS = [{"id": i, "type": 3, "query": f"CREATE TABLE t{i} (a INT)"} for i in range(2, 1400, 2)]


class Status:
    """`/ddl/history` as TiDB's handler does it."""

    def __init__(self) -> None:
        self.asked: list[dict[str, str]] = []
        self.status = 200
        self.instead = ""

    async def history(self, request: web.Request) -> web.Response:
        query = dict(request.query)
        self.asked.append(query)
        if self.status != 200:
            return web.Response(status=self.status, text="not now")
        if self.instead:
            return web.Response(text=self.instead)
        if not query:
            return web.json_response(JOBS)
        limit, start = int(query["limit"]), int(query.get("start_job_id", 1 << 60))
        if not 1 <= limit <= 1024 or start < 1:
            return web.Response(status=400, text="ddl history limit or start_job_id is wrong")
        newest_first = [job for job in reversed(JOBS) if int(str(job["id"])) <= start]
        return web.json_response(newest_first[:limit])


@asynccontextmanager
async def tidb(status: Status) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_get("/ddl/history", status.history)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def ids(history: DdlHistory, after: int) -> list[int]:
    return [job.id async for page in history.jobs(after) for job in page]


def over_http(check: Callable[[HttpHistory, Status], Awaitable[None]]) -> None:
    async def main() -> None:
        status = Status()
        async with tidb(status) as url:
            await check(HttpHistory(url), status)

    asyncio.run(main())


def test_the_first_read_is_page_by_page_too() -> None:
    """Everything at once is more than a TiDB of a million jobs has memory for."""

    async def check(history: HttpHistory, status: Status) -> None:
        assert await ids(history, 0) == [job["id"] for job in JOBS]
        assert all(int(query["limit"]) <= PAGE for query in status.asked)
        assert len(status.asked) <= len(JOBS) // (PAGE - 1) + 2

    over_http(check)


@pytest.mark.parametrize("after", [1, 700, 998, 1000, 1396, 1398, 5000])
def test_later_reads_fetch_only_what_is_new(after: int) -> None:
    async def check(history: HttpHistory, status: Status) -> None:
        found = await ids(history, after)
        assert found == [job["id"] for job in JOBS if int(str(job["id"])) > after]
        assert len(found) == len(set(found))
        assert len(status.asked) <= len(found) // (PAGE - 1) + 1

    over_http(check)


@pytest.mark.parametrize("inclusive", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_ids_with_gaps_of_any_width_come_each_once_in_order(seed: int, inclusive: bool) -> None:
    rng = Random(seed)
    made: list[int] = []
    while len(made) < 6000:
        made += [(made[-1] if made else 0) + rng.choice((1, 1, 2, 7, 100, 3000))] * 1
        made += range(made[-1] + 1, made[-1] + rng.choice((1, 1, 5, 900)))

    class Sparse(HttpHistory):
        asked = 0

        async def _get(self, session: ClientSession, query: dict[str, int]) -> list[DdlJob]:
            self.asked += 1
            end = query.get("start_job_id", 1 << 60) - (not inclusive)
            return [DdlJob(i, 3) for i in reversed(made) if i <= end][: query["limit"]]

    async def main() -> None:
        for after in (0, made[0], made[1000], made[-2], made[-1]):
            history = Sparse("http://127.0.0.1:1")
            found = await ids(history, after)
            assert found == [i for i in made if i > after]
            assert history.asked <= 10 + len(found) // 50

    asyncio.run(main())


def test_an_error_or_nobody_there_is_unavailable() -> None:
    async def check(history: HttpHistory, status: Status) -> None:
        status.status = 500
        with pytest.raises(Unavailable, match="500"):
            await ids(history, 0)

    over_http(check)

    async def nobody() -> None:
        with pytest.raises(Unavailable):
            await ids(HttpHistory("http://127.0.0.1:1"), 0)

    asyncio.run(nobody())


def test_a_file_plain_or_packed(tmp_path: Path) -> None:
    plain, packed, broken = tmp_path / "h.json", tmp_path / "h.json.xz", tmp_path / "b.json"
    plain.write_text(json.dumps(JOBS))
    packed.write_bytes(lzma.compress(plain.read_bytes()))
    broken.write_text('{"id": 1}')

    async def main() -> None:
        for path in (plain, packed):
            assert await ids(FileHistory(str(path)), 1000) == list(range(1002, 1400, 2))
        with pytest.raises(Corrupt):
            await ids(FileHistory(str(broken)), 0)
        with pytest.raises(ConfigError):
            await ids(FileHistory(str(tmp_path / "none.json")), 0)

    asyncio.run(main())


@pytest.mark.parametrize("indent", [None, 1])
def test_a_large_file_is_decoded_as_it_is_read(tmp_path: Path, indent: int | None) -> None:
    nasty = [
        job
        | {"query": '},{"id":1,"type":"' + str(job["query"]), "raw_args": {"id": 1, "type": [{}]}}
        for job in JOBS
    ]
    path, shuffled, cut = tmp_path / "h.json", tmp_path / "s.json", tmp_path / "c.json"
    text = json.dumps(nasty, indent=indent)
    path.write_text(text)
    shuffled.write_text(json.dumps([*nasty[400:], *nasty[:400]], indent=indent))
    cut.write_text(text[:-30])

    async def main() -> None:
        for whole_bytes in (1, 1000, 50_000):
            known = FileHistory(str(path), whole_bytes=whole_bytes)
            assert await ids(known, 1000) == list(range(1002, 1400, 2))
        assert await ids(FileHistory(str(shuffled)), 0) == list(range(2, 1400, 2))
        with pytest.raises(Corrupt, match="rising"):
            await ids(FileHistory(str(shuffled), whole_bytes=1000), 0)
        with pytest.raises(Corrupt, match="something else"):
            await ids(FileHistory(str(cut), whole_bytes=1000), 0)

    asyncio.run(main())


@pytest.mark.parametrize("size", [1, 7, 100, 5000])
def test_jobs_come_out_of_pieces_of_any_size(size: int) -> None:
    jobs = decode_jobs(ddl_history_json("set-a"))
    data = json.dumps(msgspec.to_builtins(jobs[:40])).encode()
    stream, found = JobStream(), list[DdlJob]()
    for at in range(0, len(data), max(size, len(data) // 400)):
        found += stream.feed(data[at : at + max(size, len(data) // 400)])
    assert found + stream.finish() == jobs[:40]
    assert len(found) > 30


def test_jobs_of_another_form_are_refused_as_soon_as_one_is_whole() -> None:
    """Else some GiB of them would be waited for."""
    with pytest.raises(msgspec.ValidationError, match="id"):
        JobStream().feed(b'[{"id": "one", "type": 3}, {"id": "two", "type"')


@pytest.mark.parametrize("indent", [None, 1])
def test_a_large_file_is_read_from_about_the_jobs_asked_for(indent: int | None) -> None:
    """Where lists within jobs look like jobs, too."""
    likeness = [{"id": 5000, "type": 3}, {"id": 1, "type": 3}, {"id": 5000, "type": 3}]
    jobs = [job | {"raw_args": likeness} if i % 3 == 0 else job for i, job in enumerate(JOBS)]
    text = json.dumps(jobs, indent=indent).encode()
    starts = {
        int(found[1]): found.start() + 1
        for found in re.finditer(rb'[\[,]\s*\{\s*"id": (\d+),\s*"type": 3,\s*"query"', text)
    }
    assert len(starts) == len(jobs)
    for after in range(2, 1400, 46):
        place = place_of(BytesIO(text), after, 1500)
        assert starts[after] - place < 3000
        (begin,) = JobStream(begun=place > 0).feed(text[place : place + 1500])[:1]
        assert begin.id <= after


def test_the_url_says_which() -> None:
    async def main(world: World) -> None:
        bus = world.ports().bus
        assert isinstance(open_history("embedded", bus, "c"), EmbeddedHistory)
        assert isinstance(open_history("file:jobs.json", bus, "c"), FileHistory)
        assert isinstance(open_history("http://127.0.0.1:10080", bus, "c"), HttpHistory)
        for wrong in ("", "jobs.json", "ftp://x", "http://"):
            with pytest.raises(ConfigError):
                open_history(wrong, bus, "c")

    run(main)


def test_a_file_that_ends_too_early_or_holds_something_else(tmp_path: Path) -> None:
    async def main() -> None:
        cut = tmp_path / "cut.json.xz"
        cut.write_bytes(lzma.compress(json.dumps(JOBS).encode())[:-40])
        with pytest.raises(ConfigError, match="can't be read"):
            await ids(FileHistory(str(cut)), 0)
        other = tmp_path / "other.json"
        other.write_text('{"jobs": 7}')
        with pytest.raises(Corrupt, match="holds something else"):
            await ids(FileHistory(str(other)), 0)
        (tmp_path / "a directory").mkdir()
        with pytest.raises(ConfigError, match="can't be read"):
            await ids(FileHistory(str(tmp_path / "a directory")), 0)

    asyncio.run(main())


def test_an_answer_that_is_no_list_of_jobs_is_asked_for_again_later() -> None:
    async def check(history: HttpHistory, status: Status) -> None:
        status.status = 200
        status.instead = "<html>a proxy's page</html>"
        with pytest.raises(Unavailable, match="something else"):
            await ids(history, 0)

    over_http(check)


def test_a_kept_job_that_cant_be_read_stops_who_reads_it() -> None:
    async def main(world: World) -> None:
        bus = world.ports("registry").bus

        async def answer(request: Request) -> None:
            jobs = DdlJobs([msgspec.Raw(b'{"id": "no number"}')])
            request.respond(msgspec.json.encode(jobs))

        await bus.serve(subjects.registry("c", "ddl-list"), answer)
        with pytest.raises(UnparsablePayload, match="a DDL job"):
            await ids(EmbeddedHistory(world.ports("drainer").bus, "c"), 0)

    run(main, 1)
