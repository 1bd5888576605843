"""What every Bus does with core messages (tidelog.ports.Bus)."""

from __future__ import annotations

import asyncio

import pytest

from tests.conformance.places import Place, until
from tidelog.errors import (
    BadInput,
    DeadlineExceeded,
    MessageTooLarge,
    NoResponders,
    TidelogError,
    Unavailable,
)
from tidelog.messages import ErrorReply, decode
from tidelog.ports import Request


def test_a_request_is_answered_with_headers(place: Place) -> None:
    async def scenario(place: Place) -> None:
        server, client = await place.bus(), await place.bus()

        async def handler(request: Request) -> None:
            assert request.wants_reply
            request.respond(request.data + b"!", {"X-Was": request.headers["X-Is"]})
            request.respond(b"a second answer is not sent")

        await server.serve(f"{place.name}.echo.*", handler)
        answer = await client.request(
            f"{place.name}.echo.a", b"hi", timeout_s=5, headers={"X-Is": "ä b"}
        )
        assert answer.data == b"hi!"
        assert answer.headers["X-Was"] == "ä b"

    place.run(scenario)


def test_nobody_there_is_told_at_once_and_definitely(place: Place) -> None:
    async def scenario(place: Place) -> None:
        client = await place.bus()
        with pytest.raises(NoResponders) as caught:
            await client.request(f"{place.name}.nobody", b"", timeout_s=5)
        assert caught.value.definite

    place.run(scenario)


def test_a_silent_server_is_a_deadline(place: Place) -> None:
    async def scenario(place: Place) -> None:
        server, client = await place.bus(), await place.bus()

        async def silent(request: Request) -> None:
            pass

        await server.serve(f"{place.name}.silent", silent)
        with pytest.raises(DeadlineExceeded) as caught:
            await client.request(f"{place.name}.silent", b"", timeout_s=0.2)
        assert not caught.value.definite

    place.run(scenario)


def test_messages_of_one_sender_come_in_order_one_at_a_time(place: Place) -> None:
    async def scenario(place: Place) -> None:
        server, client = await place.bus(), await place.bus()
        heard: list[int] = []
        busy = 0

        async def slow(request: Request) -> None:
            nonlocal busy
            assert not request.wants_reply
            busy += 1
            assert busy == 1
            await asyncio.sleep(0.0005)
            heard.append(int(request.data))
            busy -= 1

        await server.serve(f"{place.name}.order", slow)
        for number in range(100):
            await client.publish(f"{place.name}.order", str(number).encode())
        await until(lambda: len(heard) == 100)
        assert heard == list(range(100))

    place.run(scenario)


def test_each_subscriber_hears_a_message_but_one_of_a_queue_group(place: Place) -> None:
    async def scenario(place: Place) -> None:
        client = await place.bus()
        heard: dict[str, int] = {}
        for name, queue in (("a", ""), ("b", ""), ("q1", "q"), ("q2", "q")):

            async def count(request: Request, name: str = name) -> None:
                heard[name] = heard.get(name, 0) + 1

            await (await place.bus()).serve(f"{place.name}.>", count, queue=queue)
        for _ in range(40):
            await client.publish(f"{place.name}.x.y", b"")
        await until(lambda: sum(heard.values()) == 120)
        assert heard["a"] == heard["b"] == 40
        assert heard["q1"] + heard["q2"] == 40
        assert heard["q1"]
        assert heard["q2"]

    place.run(scenario)


def test_a_closed_subscription_hears_nothing_more(place: Place) -> None:
    async def scenario(place: Place) -> None:
        server, client = await place.bus(), await place.bus()
        subject = f"{place.name}.close"

        async def echo(request: Request) -> None:
            request.respond(b"")

        subscription = await server.serve(subject, echo)
        await client.request(subject, b"", timeout_s=5)
        await subscription.close()
        async with asyncio.timeout(5):
            while True:
                try:
                    await client.request(subject, b"", timeout_s=0.5)
                except NoResponders:
                    break
                except Unavailable:
                    continue

    place.run(scenario)


def test_an_error_of_a_handler_is_the_answer_and_it_goes_on(place: Place) -> None:
    async def scenario(place: Place) -> None:
        server, client = await place.bus(), await place.bus()

        async def picky(request: Request) -> None:
            if request.data == b"bad":
                raise BadInput("no")
            request.respond(b"ok")

        await server.serve(f"{place.name}.picky", picky)
        answer = await client.request(f"{place.name}.picky", b"bad", timeout_s=5)
        assert decode(answer.data, ErrorReply).code == "BadInput"
        assert (await client.request(f"{place.name}.picky", b"", timeout_s=5)).data == b"ok"

    place.run(scenario)


def test_too_large_messages_are_refused_here(place: Place) -> None:
    async def scenario(place: Place) -> None:
        client = await place.bus()
        big = bytes(client.max_payload + 1)
        with pytest.raises(MessageTooLarge):
            await client.publish(f"{place.name}.big", big)
        with pytest.raises(MessageTooLarge):
            await client.request(f"{place.name}.big", big, timeout_s=1)

    place.run(scenario)


def test_of_too_large_an_answer_the_asker_is_told(place: Place) -> None:
    """Nothing would come, however often it is asked."""

    async def scenario(place: Place) -> None:
        server, client = await place.bus(), await place.bus()

        async def talkative(request: Request) -> None:
            request.respond(bytes(server.max_payload + 1))

        await server.serve(f"{place.name}.long", talkative)
        answer = await client.request(f"{place.name}.long", b"", timeout_s=2)
        assert decode(answer.data, ErrorReply).code == "MessageTooLarge"

    place.run(scenario)


def test_after_a_restart_of_the_server_everything_goes_on(place: Place) -> None:
    async def scenario(place: Place) -> None:
        server, client = await place.bus(), await place.bus()
        subject = f"{place.name}.again"

        async def echo(request: Request) -> None:
            request.respond(request.data)

        await server.serve(subject, echo)
        restarting = asyncio.get_running_loop().create_task(place.restart_server())
        await until(lambda: not client.connected)
        await restarting
        async with asyncio.timeout(20):
            while True:
                try:
                    answer = await client.request(subject, b"x", timeout_s=5)
                    break
                except TidelogError:
                    await asyncio.sleep(0.05)
        assert answer.data == b"x"
        assert client.connected

    place.run(scenario)


def test_every_request_under_way_at_a_restart_is_settled(place: Place) -> None:
    async def scenario(place: Place) -> None:
        server, client = await place.bus(), await place.bus()
        arrived = 0

        async def silent(request: Request) -> None:
            nonlocal arrived
            arrived += 1

        await server.serve(f"{place.name}.pending", silent)

        async def ask() -> bool:
            try:
                await client.request(f"{place.name}.pending", b"", timeout_s=10)
            except Unavailable:
                return True
            return False

        asks = [asyncio.get_running_loop().create_task(ask()) for _ in range(20)]
        await until(lambda: arrived == 20)
        await place.restart_server()
        assert all(await asyncio.gather(*asks))

    place.run(scenario)


def test_a_closed_bus_refuses(place: Place) -> None:
    async def scenario(place: Place) -> None:
        client = await place.bus()
        await client.close()
        with pytest.raises(Unavailable):
            await client.request(f"{place.name}.x", b"", timeout_s=1)

    place.run(scenario)


def test_who_still_waits_when_its_bus_closes_is_told(place: Place) -> None:
    async def scenario(place: Place) -> None:
        server, client = await place.bus(), await place.bus()
        arrived: list[Request] = []

        async def silent(request: Request) -> None:
            arrived.append(request)

        await server.serve(f"{place.name}.silent", silent)
        ask = client.request(f"{place.name}.silent", b"", timeout_s=60)
        waits = asyncio.get_running_loop().create_task(ask)
        await until(lambda: len(arrived) == 1)
        await client.close()
        async with asyncio.timeout(5):
            with pytest.raises(Unavailable):
                await waits

    place.run(scenario)
