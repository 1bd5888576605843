"""What `tidelog doctor` still says of a topology where somebody does not answer."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.servers import NatsServer, free_port, nats_server
from tidelog import messages, subjects
from tidelog.messages import Nodes
from tidelog.ports import Request
from tidelog.real.bus import NatsBus
from tidelog.real.clock import RealClock
from tidelog_cli.doctor.examining import Asked, look
from tidelog_cli.doctor.finding import OK, UNKNOWN, WRONG, Finding
from tidelog_cli.state_file import TopologyState


async def looked(server: NatsServer, **http: str) -> dict[tuple[str, str], Finding]:
    state = TopologyState(server.url, "c", "main", http=http)
    asked = Asked(state, monitoring=f"http://127.0.0.1:{server.http_port}")
    found = await look(asked, RealClock())
    return {(one.check, one.about): one for one in found}


def test_services_are_asked_for_themselves_when_the_registry_is_silent(tmp_path: Path) -> None:
    with nats_server(tmp_path) as server:
        nowhere = f"http://127.0.0.1:{free_port()}"
        found = asyncio.run(looked(server, **{"pump-1": nowhere}))
    registry = found["nodes", "registry"]
    assert (registry.verdict, "--cluster c`" in registry.hint) == (WRONG, True)
    assert found["services", "pump-1"].verdict == UNKNOWN
    assert found["nats", "JetStream"].verdict == OK


@contextmanager
def without_jetstream(directory: Path) -> Iterator[NatsServer]:
    server = NatsServer(directory / "nats")
    file = server.directory / "nats.conf"
    file.write_text(re.sub(r"jetstream \{.*?\}", "", file.read_text(), flags=re.DOTALL))
    server.start()
    try:
        yield server
    finally:
        server.kill()


def test_a_feed_that_nobody_can_look_at_hides_nothing_else(tmp_path: Path) -> None:
    """A registry that lives, and a NATS server that has lost its JetStream."""

    async def asked(server: NatsServer) -> dict[tuple[str, str], Finding]:
        bus = await NatsBus.connect(server.url)

        async def answers(request: Request) -> None:
            request.respond(messages.encode(Nodes([])))

        await bus.serve(subjects.registry("c", "nodes"), answers)
        try:
            return await looked(server)
        finally:
            await bus.close()

    with without_jetstream(tmp_path) as server:
        found = asyncio.run(asked(server))
    assert found["feed", "main"].verdict == WRONG
    assert found["nodes", "registry"].verdict == OK
    assert found["permissions", ""].verdict == UNKNOWN
    assert found["nats", "JetStream"].verdict == WRONG
