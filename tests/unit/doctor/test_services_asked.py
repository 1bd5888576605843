"""What answers where a service told its HTTP to be."""

from __future__ import annotations

import asyncio

import pytest

from tidelog_cli.doctor import services
from tidelog_cli.doctor.finding import OK, UNKNOWN

STATUS = '{"version":"1","ready":true,"why":"","actors":{},"config":{}}'


def asked(body: str, date: str) -> services.Told:
    """Of a server that answers so."""

    async def answers(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = f"HTTP/1.1 200 OK\r\nDate: {date}\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write((head + body).encode())
        await writer.drain()
        writer.close()

    async def ask() -> list[services.Told]:
        server = await asyncio.start_server(answers, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            return await services.ask_all({"pump-1": f"http://127.0.0.1:{port}"})

    (told,) = asyncio.run(ask())
    return told


@pytest.mark.parametrize("date", ["yesterday", "", "Mon, 99 Feb 2026 00:00:00 GMT"])
def test_a_date_that_is_none_is_no_clock_that_is_wrong(date: str) -> None:
    told = asked(STATUS, date)
    assert told.date_ms == 0
    findings = services.judge([told], 1_795_000_000_000)
    assert [one.verdict for one in findings] == [OK, OK]


def test_a_date_is_the_clock_of_its_machine() -> None:
    told = asked(STATUS, "Wed, 01 Jan 2025 00:00:00 GMT")
    assert told.date_ms == 1_735_689_600_000 + services.DATE_MS


@pytest.mark.parametrize("body", ['{"hello":1}', "{}", "[]", "<html>"])
def test_what_is_none_of_our_services_tells_nothing(body: str) -> None:
    told = asked(body, "")
    assert told.status is None
    assert [one.verdict for one in services.judge([told], 0)] == [UNKNOWN]
