"""Every identity x subject x publish and subscribe, asked of a server that the table configures.

The words on the wire are this test's own, so that no client library stands between.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path

import nkeys
import pytest

from tests.security_cells import CELLS, CLUSTER, IDENTITIES
from tests.servers import NatsServer, nats_server
from tidelog.real.nkey import public_key
from tidelog.security.access import inbox_of
from tidelog_cli import keys

DENIED = re.compile(r"Permissions Violation for (Publish|Subscription) to \"([^\"]*)\"")
PUB, SUB = "Publish", "Subscription"


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("security")


@pytest.fixture(scope="module")
def server(directory: Path) -> Iterator[NatsServer]:
    asyncio.run(keys.make(directory, CLUSTER, more=["subscriber-billing"]))
    with nats_server(directory, more=keys.auth_file(directory).read_text()) as running:
        yield running


async def denied(server: NatsServer, seed: bytes, lines: list[str]) -> set[tuple[str, str]]:
    """Which of those lines the server denies to who has that seed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    pair = nkeys.from_seed(bytearray(seed))
    try:
        nonce = json.loads((await reader.readline())[5:])["nonce"]
        about = {
            "nkey": pair.public_key.decode(),
            "sig": base64.b64encode(pair.sign(nonce.encode())).decode(),
            "verbose": False,
            "protocol": 1,
        }
        writer.write(b"CONNECT " + json.dumps(about).encode() + b"\r\n")
        writer.write("".join(f"{line}\r\n" for line in lines).encode() + b"PING\r\n")
        found: set[tuple[str, str]] = set()
        while not (line := (await reader.readline()).decode()).startswith("PONG"):
            assert line, "the server ended the connection"
            if line.startswith("-ERR"):
                match = DENIED.search(line)
                assert match is not None, line
                found.add((match[1], match[2]))
        return found
    finally:
        writer.close()


def pub(subject: str) -> str:
    return f"PUB {subject} 0\r\n"


def sub(subject: str, number: int) -> str:
    return f"SUB {subject} {number}"


def seed_of(directory: Path, name: str) -> bytes:
    return Path(keys.seed_file(directory, name)).read_bytes().strip()


@pytest.mark.parametrize("identity", IDENTITIES)
def test_each_cell_is_as_it_is_written_down(
    server: NatsServer, directory: Path, identity: str
) -> None:
    """What is published has no reply, so that nothing happens by it: it is a stream's API with no
    body, on a server without streams."""
    literal = [cell for cell in CELLS if not {"*", ">"} & set(cell.subject.split("."))]
    lines = [pub(cell.subject) for cell in literal]
    lines += [sub(cell.subject, number) for number, cell in enumerate(CELLS)]
    refused = asyncio.run(denied(server, seed_of(directory, identity), lines))
    expected = {(PUB, cell.subject) for cell in literal if identity not in cell.publish}
    expected |= {(SUB, cell.subject) for cell in CELLS if identity not in cell.subscribe}
    assert refused == expected
    assert len(lines) > 350


def test_nobody_listens_to_another_ones_answers(server: NatsServer, directory: Path) -> None:
    names = (*IDENTITIES, "subscriber-billing")
    inboxes = {name: f"{inbox_of(public_key(seed_of(directory, name)))}.x" for name in names}
    for name in inboxes:
        lines = [sub(inbox, number) for number, inbox in enumerate(inboxes.values())]
        refused = asyncio.run(denied(server, seed_of(directory, name), lines))
        assert refused == {(SUB, inbox) for other, inbox in inboxes.items() if other != name}, name


def test_one_more_of_an_identity_may_what_it_may(server: NatsServer, directory: Path) -> None:
    lines = [pub("changes.main.txn"), pub("tidelog.default.registry.state"), sub("changes.>", 1)]
    refused = asyncio.run(denied(server, seed_of(directory, "subscriber-billing"), lines))
    assert refused == {(PUB, "changes.main.txn"), (PUB, "tidelog.default.registry.state")}


def test_a_key_that_nobody_made_does_not_get_in(server: NatsServer) -> None:
    seed = nkeys.encode_seed(b"\1" * 32, nkeys.PREFIX_BYTE_USER)
    with pytest.raises(AssertionError, match="Authorization Violation"):
        asyncio.run(denied(server, seed, []))
