"""What every service serves of the cluster over HTTP, beside a real registry that dies: the
original's paths with real statuses."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp

from tests.integration.registry.process import Registry, living
from tests.servers import nats_server
from tests.unit.registry.nodes import CLUSTER, drainer, nodes, pump
from tidelog import node_routes
from tidelog.config import Secret
from tidelog.errors import TidelogError
from tidelog.http_admin import HttpAdmin
from tidelog.ports import Bus
from tidelog.supervisor import Supervisor

TOKEN = "open sesame"
Ask = Callable[[str, str], Awaitable[tuple[int, Any]]]


async def until_state(bus: Bus, node: str, state: str) -> None:
    found = ""
    async with asyncio.timeout(30):
        while found != state:
            await asyncio.sleep(0.05)
            try:
                known = {n.nodeId: n.state for n in (await nodes(bus)).nodes}
            except TidelogError:
                continue
            found = known.get(node, "")


async def asks(ask: Ask, bus: Bus) -> None:
    status, body = await ask("GET", "/pumps")
    assert (status, [p["nodeId"] for p in body["pumps"]]) == (200, ["p/1", "p2"])
    seed = {"nodeId", "host", "state", "isAlive", "score", "label", "maxCommitTS", "updateTS"}
    assert all(seed <= set(p) for p in body["pumps"])
    status, body = await ask("GET", "/drainers")
    assert (status, [d["nodeId"] for d in body["drainers"]]) == (200, ["d"])
    assert (await ask("GET", "/appliers")) == (200, {"appliers": []})
    status, body = await ask("GET", "/nodes")
    assert (status, len(body["nodes"])) == (200, 3)

    status, body = await ask("PUT", "/state/p%2F1/pause")
    assert (status, body["status"]["nodeId"]) == (200, "p/1")
    await until_state(bus, "p/1", "paused")
    assert (await ask("PUT", "/state/p%2F1/resume"))[0] == 200
    await until_state(bus, "p/1", "online")
    status, body = await ask("PUT", "/state/p2/close")
    assert (status, body["status"]["state"]) == (200, "closing")
    status, body = await ask("PUT", "/state/p2/pause")
    assert (status, body["code"]) == (409, "Refused")
    assert body["message"]
    for nowhere in ("/state/nobody/pause", "/state/p2/dance", "/state/p2", "/state/p2/pause/now"):
        status, body = await ask("PUT", nowhere)
        assert (status, body["code"]) == (404, "NotFound"), nowhere
    assert (await ask("GET", "/state/p2/pause"))[0] == 405


def test_states_and_lists_over_http(tmp_path: Path) -> None:
    async def main() -> None:
        with nats_server(tmp_path) as server:
            registry = Registry(server, tmp_path / "registry")
            registry.start()
            tree = Supervisor("any")
            admin = HttpAdmin(lambda: {"ready": True}, lambda: tree.routes, Secret(TOKEN))
            address = await admin.start("127.0.0.1:0")
            headers = {"Authorization": f"Bearer {TOKEN}"}
            scripts = (pump("p/1"), pump("p2"), drainer("d"))
            try:
                async with (
                    living(server, tmp_path, *scripts) as bus,
                    aiohttp.ClientSession(headers=headers) as session,
                ):

                    async def ask(method: str, path: str) -> tuple[int, Any]:
                        async with session.request(method, f"http://{address}{path}") as answer:
                            return answer.status, await answer.json()

                    node_routes.add(tree, bus, CLUSTER)
                    for node in ("p/1", "p2", "d"):
                        await until_state(bus, node, "online")
                    await asks(ask, bus)
                    registry.kill()
                    for method, path in (("PUT", "/state/p2/pause"), ("GET", "/pumps")):
                        status, body = await ask(method, path)
                        assert (status, body["code"]) == (503, "Unavailable")
                        assert "registry" in body["message"]
            finally:
                registry.kill()
                await admin.stop()

    asyncio.run(main())
