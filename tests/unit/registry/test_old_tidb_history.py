"""A TiDB before 6.3, whose status API has no start_job_id."""

from __future__ import annotations

import asyncio

from aiohttp import ClientSession

from tests.unit.registry.test_ddl_history import ids
from tidelog.ddl_history import HttpHistory
from tidelog.schema.model import DdlJob

MADE = list(range(2, 4000, 2))


class Old(HttpHistory):
    async def _get(self, session: ClientSession, query: dict[str, int]) -> list[DdlJob]:
        jobs = [DdlJob(i, 3) for i in MADE]
        return jobs[-query["limit"] :] if "limit" in query else jobs


def test_a_tidb_that_knows_no_start_job_id_hides_no_job() -> None:
    async def main() -> None:
        for after in (0, 1000, MADE[-600], MADE[-10]):
            assert await ids(Old("http://127.0.0.1:1"), after) == [i for i in MADE if i > after]

    asyncio.run(main())
