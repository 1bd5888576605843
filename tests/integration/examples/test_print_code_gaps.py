"""What `tidelog subscribe --print-code` prints in languages without our library, on streams as
they rarely are: with a gap, with a batch that never got its marker, with the first one cut off."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import nats
import pytest

from tests.integration.examples.test_print_code import FILES, command
from tests.servers import nats_server
from tidelog_cli.subscribe import Language, Wanted, program

OTHERS = (Language.GO, Language.JAVASCRIPT)
ROWS, TXN = "changes.main.row.shop.item", "changes.main.txn"


class Sent(NamedTuple):
    subject: str
    attempt: str
    last_ts: int
    body: dict[str, Any]


def ts(n: int) -> int:
    """As an oracle gives them: time above, a counter below."""
    return 1_795_341_600_000 + n << 18


def row(attempt: str, n: int) -> Sent:
    event = {"op": "c", "commit_ts": ts(n), "key": {"id": n}, "after": {"id": n}}
    body = {"db": "shop", "table": "item", "schema_version": 1, "events": [event]}
    return Sent(ROWS, attempt, ts(n), body)


def marker(attempt: str, n: int, previous: int, messages: int = 1) -> Sent:
    txn = {"commit_ts": ts(n), "start_ts": ts(n) - 1, "rows": 1, "tables": {"shop.item": 1}}
    body = {"attempt": attempt, "messages": messages, "prev_commit_ts": previous, "txns": [txn]}
    return Sent(TXN, attempt, ts(n), body)


STREAM = (
    row("cut", 1),  # what came before it is gone
    marker("cut", 1, 0, messages=3),
    row("a", 2),
    marker("a", 2, ts(1)),
    row("died", 3),
    row("b", 3),
    marker("b", 3, ts(2)),
    row("c", 5),
    marker("c", 5, ts(4)),  # 4 is missing
)


async def fill(url: str, sent: Sequence[Sent]) -> None:
    client = await nats.connect(url)
    stream = client.jetstream()
    await stream.add_stream(name="CHANGES_MAIN", subjects=["changes.main.>"])
    for index, message in enumerate(sent):
        headers = {
            "Tidelog-Attempt": message.attempt,
            "Tidelog-Index": str(index),
            "Tidelog-Last-Commit-Ts": str(message.last_ts),
        }
        body = json.dumps(message.body, separators=(",", ":")).encode()
        await stream.publish(message.subject, body, headers=headers)
    await client.close()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("language", OTHERS)
def test_a_gap_ends_it_and_what_is_not_whole_is_left_out(
    language: Language, tmp_path: Path
) -> None:
    with nats_server(tmp_path) as server:
        asyncio.run(fill(server.url, STREAM))
        path = tmp_path / FILES[language]
        path.write_text(program(language, Wanted(server.url, "default", "main", ("shop.*",))))
        done = subprocess.run(
            command(language, path),
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert done.returncode == 1, done.stderr
    assert [int(line.split()[0]) for line in done.stdout.splitlines()] == [ts(2), ts(3)]
    assert "begin again from a copy" in done.stderr
    assert (tmp_path / "position").read_text() == f"{ts(3)}\n"
