"""A TiDB of many jobs: `python -m tests.schema_size.status_api JOBS TABLES`. Prints its URL."""

from __future__ import annotations

import asyncio
import sys

from aiohttp import web

from tests.schema_size.jobs import Jobs


async def main(jobs: Jobs) -> None:
    async def history(request: web.Request) -> web.Response:
        query = request.query
        if "limit" not in query:
            return web.Response(status=500, text="there is no memory for all of them")
        limit = min(1024, int(query["limit"]))
        body = jobs.page(int(query.get("start_job_id", 3 * jobs.count)), limit)
        return web.Response(body=body, content_type="application/json")

    app = web.Application()
    app.router.add_get("/ddl/history", history)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(f"http://127.0.0.1:{runner.addresses[0][1]}", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Jobs(int(sys.argv[1]), int(sys.argv[2]))))
