"""What every Bus does with streams, and the KV bucket on them (tidelog.ports.Bus, tidelog.kv)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.conformance.places import Place
from tidelog.errors import (
    BadInput,
    Conflict,
    MessageTooLarge,
    Purged,
    StreamMissing,
    Unavailable,
)
from tidelog.kv import Bucket
from tidelog.ports import Bus, Message, Outgoing, StreamConfig, StreamReader, StreamState


async def _stream(place: Place, bus: Bus, **limits: Any) -> str:
    name = f"S_{place.name}"
    await bus.stream_create(StreamConfig(name, (f"{place.name}.>",), **limits))
    return name


def _messages(place: Place, *tails: str, data: bytes = b"") -> list[Outgoing]:
    return [Outgoing(f"{place.name}.{t}", data or t.encode(), {"T": t}) for t in tails]


async def _take(reader: StreamReader, count: int) -> list[Message]:
    found: list[Message] = []
    async with asyncio.timeout(30):
        while len(found) < count:
            found += await reader.next_batch(count - len(found), 1.0)
    return found


async def _read_nothing(reader: StreamReader) -> None:
    """Read until the reader's error; there must be nothing before it."""
    async with asyncio.timeout(30):
        while True:
            assert await reader.next_batch(10, 1) == []


def test_create_is_idempotent_and_state_counts(place: Place) -> None:
    async def scenario(place: Place) -> None:
        bus = await place.bus()
        assert await bus.stream_state(f"S_{place.name}") is None
        name = await _stream(place, bus)
        first = await bus.stream_state(name)
        assert first is not None
        assert (first.last_seq, first.messages) == (0, 0)
        assert await bus.append(name, _messages(place, "a", "b", "c")) == 3
        again = await bus.stream_create(StreamConfig(name, (f"{place.name}.>",)))
        assert (again.created, again.first_seq, again.last_seq) == (first.created, 1, 3)
        assert again.messages == 3
        await bus.stream_delete(name)
        await bus.stream_delete(name)
        assert await bus.stream_state(name) is None
        await _stream(place, bus)
        fresh = await bus.stream_state(name)
        assert fresh is not None
        assert fresh.created != first.created
        assert fresh.last_seq == 0

    place.run(scenario)


def test_batches_are_all_or_nothing_under_their_fence(place: Place) -> None:
    async def scenario(place: Place) -> None:
        bus = await place.bus()
        name = await _stream(place, bus)
        assert await bus.append(name, _messages(place, "a", "b"), expected_last_seq=0) == 2
        assert await bus.append(name, _messages(place, "a"), expected_last_seq=2) == 3
        for batch in (_messages(place, "x"), _messages(place, "x", "y", "z")):
            with pytest.raises(Conflict) as caught:
                await bus.append(name, batch, expected_last_seq=2)
            assert caught.value.definite
        state = await bus.stream_state(name)
        assert state is not None
        assert state.last_seq == 3

    place.run(scenario)


def test_the_fence_of_a_subject(place: Place) -> None:
    async def scenario(place: Place) -> None:
        bus = await place.bus()
        name = await _stream(place, bus)
        assert await bus.append(name, _messages(place, "a"), expected_last_subject_seq=0) == 1
        assert await bus.append(name, _messages(place, "b"), expected_last_subject_seq=0) == 2
        assert await bus.append(name, _messages(place, "a"), expected_last_subject_seq=1) == 3
        with pytest.raises(Conflict):
            await bus.append(name, _messages(place, "a"), expected_last_subject_seq=1)
        with pytest.raises(Conflict):
            await bus.append(name, _messages(place, "b"), expected_last_subject_seq=0)

    place.run(scenario)


def test_a_batch_of_a_thousand_messages_and_not_one_more(place: Place) -> None:
    async def scenario(place: Place) -> None:
        bus = await place.bus()
        name = await _stream(place, bus)
        assert await bus.append(name, _messages(place, *["m"] * 1000)) == 1000
        with pytest.raises(BadInput):
            await bus.append(name, _messages(place, *["m"] * 1001))
        with pytest.raises(BadInput):
            await bus.append(name, [])
        with pytest.raises(MessageTooLarge):
            await bus.append(name, _messages(place, "a", data=bytes(bus.max_payload + 1)))
        state = await bus.stream_state(name)
        assert state is not None
        assert state.last_seq == 1000

    place.run(scenario)


def test_only_one_of_two_racing_batches_wins(place: Place) -> None:
    async def scenario(place: Place) -> None:
        first, second = await place.bus(), await place.bus()
        name = await _stream(place, first)

        async def attempt(bus: Bus, tail: str) -> bool:
            try:
                await bus.append(name, _messages(place, *[tail] * 5), expected_last_seq=0)
            except Conflict:
                return False
            return True

        won = await asyncio.gather(attempt(first, "a"), attempt(second, "b"))
        assert sorted(won) == [False, True]
        reader = await first.read(name, start_seq=1)
        assert len({m.subject for m in await _take(reader, 5)}) == 1
        await reader.close()

    place.run(scenario)


def test_a_missing_stream_is_named(place: Place) -> None:
    async def scenario(place: Place) -> None:
        bus = await place.bus()
        name = f"S_{place.name}"
        with pytest.raises(StreamMissing):
            await bus.append(name, _messages(place, "a"), timeout_s=3)
        with pytest.raises(StreamMissing):
            await bus.append(name, _messages(place, "a", "b"), timeout_s=3)
        with pytest.raises(StreamMissing):
            await bus.last_message(name, f"{place.name}.a")
        with pytest.raises(StreamMissing):
            await bus.read(name, start_seq=1)

    place.run(scenario)


def test_last_message_of_a_subject_or_a_pattern(place: Place) -> None:
    async def scenario(place: Place) -> None:
        bus = await place.bus()
        name = await _stream(place, bus)
        assert await bus.last_message(name, f"{place.name}.a") is None
        await bus.append(name, _messages(place, "a", "b.x", "a", "b.y"))
        last = await bus.last_message(name, f"{place.name}.a")
        assert last is not None
        assert (last.sequence, last.data, dict(last.headers)) == (3, b"a", {"T": "a"})
        newest = await bus.last_message(name, f"{place.name}.b.>")
        assert newest is not None
        assert (newest.sequence, newest.subject) == (4, f"{place.name}.b.y")

    place.run(scenario)


def test_a_reader_gets_everything_in_order_and_then_waits(place: Place) -> None:
    async def scenario(place: Place) -> None:
        bus, other = await place.bus(), await place.bus()
        name = await _stream(place, bus)
        for number in range(10):
            await bus.append(name, _messages(place, *[str(number)] * 20))
        reader = await other.read(name, start_seq=1)
        found = await _take(reader, 200)
        assert [m.sequence for m in found] == list(range(1, 201))
        assert [m.data for m in found[::20]] == [str(n).encode() for n in range(10)]
        assert found[0].headers == {"T": "0"}
        assert await reader.next_batch(10, 0.2) == []
        await bus.append(name, _messages(place, "late"))
        assert [m.data for m in await _take(reader, 1)] == [b"late"]
        await reader.close()
        tail = await other.read(name, start_seq=202)
        assert await tail.next_batch(10, 0.1) == []
        await bus.append(name, _messages(place, "tail"))
        assert [m.sequence for m in await _take(tail, 1)] == [202]
        await tail.close()

    place.run(scenario)


def test_a_reader_of_some_subjects(place: Place) -> None:
    async def scenario(place: Place) -> None:
        bus = await place.bus()
        name = await _stream(place, bus)
        await bus.append(name, _messages(place, "a", "b", "c.x", "a", "b", "c.y"))
        reader = await bus.read(
            name, start_seq=2, subjects=(f"{place.name}.a", f"{place.name}.c.*")
        )
        assert [m.sequence for m in await _take(reader, 3)] == [3, 4, 6]
        assert await reader.next_batch(10, 0.2) == []
        await reader.close()

    place.run(scenario)


def test_a_reader_goes_on_over_restarts_without_gap_or_double(place: Place) -> None:
    async def scenario(place: Place) -> None:
        bus, other = await place.bus(), await place.bus()
        name = await _stream(place, bus)
        reader = await other.read(name, start_seq=1)
        sequences: list[int] = []
        for round_ in range(2):
            for _ in range(3):
                last = await bus.append(name, _messages(place, *["m"] * 30))
            sequences += [m.sequence for m in await _take(reader, 40)]
            await place.restart_server()
            while True:
                try:
                    last = await bus.append(
                        name, _messages(place, *["n"] * 10), expected_last_seq=last
                    )
                    break
                except (Unavailable, Conflict):
                    state = await bus.stream_state(name)
                    assert state is not None
                    if state.last_seq > last:
                        break
            assert last >= 100 * (round_ + 1) - 10
        sequences += [m.sequence for m in await _take(reader, 200 - len(sequences))]
        assert sequences == list(range(1, 201))
        await reader.close()

    place.run(scenario)


def test_a_reader_of_a_stream_made_anew_is_told(place: Place) -> None:
    async def scenario(place: Place) -> None:
        bus = await place.bus()
        name = await _stream(place, bus)
        await bus.append(name, _messages(place, "a", "b"))
        reader = await bus.read(name, start_seq=1)
        assert len(await _take(reader, 2)) == 2
        await bus.stream_delete(name)
        with pytest.raises(StreamMissing):
            await _read_nothing(reader)
        await _stream(place, bus)
        await bus.append(name, _messages(place, "c"))
        with pytest.raises(StreamMissing):
            await _read_nothing(reader)
        await reader.close()

    place.run(scenario)


def test_a_reader_behind_the_retention_is_told(place: Place) -> None:
    async def scenario(place: Place) -> None:
        bus = await place.bus()
        name = await _stream(place, bus, max_bytes=4096)
        await bus.append(name, _messages(place, *["a"] * 3))
        reader = await bus.read(name, start_seq=1)
        assert len(await _take(reader, 3)) == 3
        await reader.close()
        for _ in range(20):
            await bus.append(name, _messages(place, "b", data=bytes(1024)))
        state = await bus.stream_state(name)
        assert state is not None
        assert state.first_seq > 4
        assert state.last_seq == 23
        with pytest.raises(Purged):
            await _read_nothing(await bus.read(name, start_seq=4))

    place.run(scenario)


def test_a_bucket_keeps_the_last_value_under_revisions(place: Place) -> None:
    async def scenario(place: Place) -> None:
        bus = await place.bus()
        bucket = Bucket(bus, f"B_{place.name}")
        with pytest.raises(StreamMissing):
            await bucket.get("a")
        with pytest.raises(StreamMissing):
            await bucket.entries()
        first = await bucket.create()
        assert (await bucket.entries()) == ({}, 0)
        assert await bucket.get("a") is None
        revision = await bucket.put("a", b"1", expected=0)
        with pytest.raises(Conflict):
            await bucket.put("a", b"2", expected=0)
        assert await bucket.put("a", b"2", expected=revision) == revision + 1
        await bucket.put("b.c", b"3")
        entry = await bucket.get("a")
        assert entry is not None
        assert (entry.value, entry.revision) == (b"2", 2)
        found, last = await bucket.entries()
        assert {key: entry.value for key, entry in found.items()} == {"a": b"2", "b.c": b"3"}
        assert last == 3
        await bucket.delete("a", expected=2)
        assert await bucket.get("a") is None
        assert await bucket.read("nothing") == (None, 0)
        assert await bucket.read("a") == (None, 4)
        found, last = await bucket.entries()
        assert list(found) == ["b.c"]
        assert last == 4
        for number in range(20):
            await bucket.put("b.c", str(number).encode())
        found, last = await bucket.entries()
        assert found["b.c"].value == b"19"
        assert last == 24
        state = await bucket.state()
        assert state is not None
        assert (state.created, state.messages) == (first.created, 2)
        with pytest.raises(Conflict):
            await bucket.put("a", b"again", expected=0)
        assert await bucket.put("a", b"again", expected=4) == 25

    place.run(scenario)


@pytest.mark.parametrize("count", [20, 300, 900])
def test_a_bucket_that_is_put_again_while_it_is_read_is_read_whole(
    place: Place, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of it stands behind where it ended when the reading began."""

    async def scenario(place: Place) -> None:
        bus, other = await place.bus(), await place.bus()
        written = Bucket(other, f"B_{place.name}")
        await written.create()
        values = {f"k{number}": bytes(600) for number in range(count)}
        await written.put_all(values)
        ask = bus.stream_state

        async def asked(name: str) -> StreamState | None:
            state = await ask(name)
            await written.put_all(values)
            return state

        monkeypatch.setattr(bus, "stream_state", asked)
        found, last = await Bucket(bus, f"B_{place.name}").entries()
        assert (len(found), last) == (count, 2 * count)

    place.run(scenario)


def test_reading_a_bucket_never_counts_what_was_superseded_as_purged(place: Place) -> None:
    async def scenario(place: Place) -> None:
        bus = await place.bus()
        bucket = Bucket(bus, f"B_{place.name}")
        await bucket.create()
        reader = await bus.read(bucket.stream, start_seq=1)
        for number in range(50):
            await bucket.put("k", str(number).encode())
        newest = b""
        async with asyncio.timeout(30):
            while newest != b"49":
                for message in await reader.next_batch(100, 1):
                    newest = message.data
        await reader.close()

    place.run(scenario)


def _leased(place: Place, tail: str, ttl_s: int) -> Outgoing:
    return Outgoing(f"{place.name}.{tail}", tail.encode(), {"T": tail}, ttl_s)


async def _until_left(bus: Bus, name: str, messages: int) -> None:
    async with asyncio.timeout(30):
        while True:
            state = await bus.stream_state(name)
            assert state is not None
            if state.messages == messages:
                return
            await asyncio.sleep(0.05)


def test_messages_with_a_time_of_their_own_end_and_leave_the_others(place: Place) -> None:
    async def scenario(place: Place) -> None:
        bus = await place.bus()
        name = f"S_{place.name}"
        config = StreamConfig(name, (f"{place.name}.>",), max_msgs_per_subject=1, allow_ttl=True)
        await bus.stream_create(config)
        first = [_leased(place, "a", 1), _leased(place, "stays", 0), _leased(place, "b", 600)]
        assert await bus.append(name, first, expected_last_seq=0) == 3
        assert await bus.append(name, [_leased(place, "c", 1)]) == 4
        message = await bus.last_message(name, f"{place.name}.c")
        assert message is not None
        assert (message.data, message.headers) == (b"c", {"T": "c"})
        await place.restart_server()
        await _until_left(bus, name, 2)
        assert await bus.last_message(name, f"{place.name}.a") is None
        newest = await bus.last_message(name, f"{place.name}.>")
        assert newest is not None
        assert (newest.data, newest.sequence) == (b"b", 3)
        reader = await bus.read(name, start_seq=1)
        assert [m.data for m in await _take(reader, 2)] == [b"stays", b"b"]
        # A sequence is never given twice.
        assert await bus.append(name, [_leased(place, "d", 600)], expected_last_seq=4) == 5
        await reader.close()

    place.run(scenario)


def test_a_stream_that_allows_no_time_refuses_it_whole(place: Place) -> None:
    async def scenario(place: Place) -> None:
        bus = await place.bus()
        name = await _stream(place, bus)
        for batch in ([_leased(place, "a", 5)], [_leased(place, "a", 0), _leased(place, "b", 5)]):
            with pytest.raises(BadInput):
                await bus.append(name, batch)
        state = await bus.stream_state(name)
        assert state is not None
        assert state.messages == 0

    place.run(scenario)


def test_a_leased_bucket_is_read_whole_although_its_last_entries_ended(place: Place) -> None:
    async def scenario(place: Place) -> None:
        bus = await place.bus()
        bucket = Bucket(bus, f"leased_{place.name}", leased=True)
        await bucket.create()
        assert await bucket.entries() == ({}, 0)
        assert await bucket.put_all({"x": b"1", "y": b"2"}, ttl_s=600, expected_last=0) == 2
        assert await bucket.put_all({"z": b"3"}, ttl_s=1, expected_last=2) == 3
        with pytest.raises(Conflict):
            await bucket.put_all({"z": b"4"}, ttl_s=1, expected_last=2)
        await _until_left(bus, bucket.stream, 2)
        found, position = await bucket.entries()
        assert {key: entry.value for key, entry in found.items()} == {"x": b"1", "y": b"2"}
        assert position == 2
        # Put again before its end, an entry goes on.
        assert await bucket.put_all({"x": b"5"}, ttl_s=1) == 4
        assert await bucket.put_all({"x": b"6"}, ttl_s=600) == 5
        assert await bucket.put_all({"witness": b""}, ttl_s=1) == 6
        await _until_left(bus, bucket.stream, 2)
        entry = await bucket.get("x")
        assert entry is not None
        assert entry.value == b"6"

    place.run(scenario)
