"""What the stream and the copy of a running topology hold."""

from __future__ import annotations

import asyncio
import json

import msgspec

from tests.compose.stack import Stack, until
from tidelog import subjects
from tidelog.changes import Marker
from tidelog.real.bus import NatsBus
from tidelog.security.access import NatsAccess

CAUGHT_UP_S = 120


def commits(topology: Stack, count: int) -> None:
    """Wait until so many more transactions are published."""
    wanted = published(topology) + count
    until(lambda: published(topology) >= wanted, f"{count} more transactions", CAUGHT_UP_S)


def published(topology: Stack) -> int:
    return markers(topology)[0]


def markers(topology: Stack) -> tuple[int, int]:
    """Transactions and rows in the stream, by its markers."""
    return asyncio.run(_markers(topology.nats, topology.access))


async def _markers(url: str, access: NatsAccess) -> tuple[int, int]:
    bus = await NatsBus.connect(url, name="test", timeout_s=30, access=access)
    transactions = rows = sequence = 0
    try:
        stream, subject = subjects.changes_stream("main"), subjects.changes_txn("main")
        newest = await bus.last_message(stream, subject)
        reader = await bus.read(stream, start_seq=1, subjects=(subject,))
        while newest is not None and sequence < newest.sequence:
            for message in await reader.next_batch(500, 0.2):
                marker = msgspec.json.decode(message.data, type=Marker)
                transactions += len(marker.txns)
                rows += sum(txn.rows for txn in marker.txns)
                sequence = message.sequence
        await reader.close()
    finally:
        await bus.close()
    return transactions, rows


def check_equal(topology: Stack) -> None:
    """The copy in MariaDB is what the workload says its source holds; the tables of the run that
    was killed are there, and nobody knows what they should hold."""
    verify = (
        "TIDELOG_VERIFY_DOWNSTREAM=mysql://tidelog:$(cat /run/secrets/password)@mariadb:3306/"
        " tidelog verify --source dump:///workload/source.json --timeout 120 --json"
    )
    done = topology.compose("exec", "--no-TTY", "cli", "sh", "-c", verify, check=False)
    known = [table for table in json.loads(done)["tables"] if table["source"]]
    differing = [table for table in known if table["result"] != "equal"]
    assert differing == [], f"{json.dumps(differing, indent=1)}\n{topology.trouble()}"
    rows = sum(table["source_rows"] for table in known)
    assert rows > 0
    print(f"equal: {rows} rows in {len(known)} tables")


def online(topology: Stack) -> list[str]:
    found = topology.tidelog("pumps")
    return [node["nodeId"] for node in found if node["state"] == "online"]
