"""Transactions on a simulated cluster: committed, rolled back, and died in the middle of."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import msgspec
import pytest

from tests.unit.pump_client.dying import after, before
from tests.unit.pump_client.shop import ADD_PRICE, CREATE_ITEM, CREATE_SHOP
from tests.unit.pump_client.shore import Shore, writer
from tidelog import supervisor
from tidelog.errors import DirectoryLocked, Stuck
from tidelog.pump_client import RolledBack, SchemaChanged, TransactionEnded, Writer
from tidelog.pump_client.client import PumpClient
from tidelog.pump_client.decisions.journal import Journal
from tidelog.pump_client.tables.errors import NoSuchTable
from tidelog.pump_client.transaction import Transaction
from tidelog.pump_client.two_phase import Upstream
from tidelog.pump_client.writer import LOCK_PATH
from tidelog.sim import World, run
from tidelog_proto.binlog_pb2 import Binlog, BinlogType, Commit, Prewrite, Rollback

Body = Callable[[Shore], Awaitable[None]]


def play(body: Body, seed: int = 1, *, txn_timeout_s: float = 600) -> None:
    async def main(world: World) -> None:
        shore = Shore(world, txn_timeout_s=txn_timeout_s)
        await _patiently(lambda: shore.history.append(msgspec.json.encode(CREATE_SHOP)))
        await shore.history.append(msgspec.json.encode(CREATE_ITEM))
        await body(shore)

    run(main, seed)


async def _patiently(call: Callable[[], Awaitable[None]]) -> None:
    while True:
        try:
            return await call()
        except Exception:  # noqa: BLE001 (the registry is starting)
            await asyncio.sleep(0.1)


async def lived(
    shore: Shore, app: Callable[[Writer], Awaitable[None]], *, within_s: float = 60
) -> None:
    """An application's life to its end, and then all of the stream is read."""
    done = asyncio.Event()

    async def whole(client: Writer) -> None:
        await app(client)
        done.set()

    shore.start("app", whole)
    async with asyncio.timeout(within_s):
        await done.wait()
    await shore.read_up_to_now()


async def insert(client: Writer, number: int) -> int:
    async with client.transaction() as txn:
        txn.insert("shop.item", {"id": number, "name": f"n{number}"})
    assert txn.commit_ts > txn.start_ts > 0
    return txn.commit_ts


def test_what_is_committed_is_read_and_nothing_else() -> None:
    committed: dict[int, list[object]] = {}

    async def app(client: Writer) -> None:
        item = {"id": 1, "name": "pen"}
        async with client.transaction() as txn:
            txn.insert("shop.item", item)
            txn.insert("shop.item", {"id": 2})
        committed[txn.commit_ts] = [
            ("c", None, {"id": 1, "Name": "pen"}),
            ("c", None, {"id": 2, "Name": None}),
        ]
        async with client.transaction() as txn:
            txn.update("shop.item", item, {"name": "pencil"})
            txn.delete("`shop`.`Item`", {"id": 2, "name": None})
        committed[txn.commit_ts] = [
            ("u", {"id": 1, "Name": "pen"}, {"id": 1, "Name": "pencil"}),
            ("d", {"id": 2, "Name": None}, None),
        ]
        with pytest.raises(ZeroDivisionError):  # noqa: PT012 (the block is what is tested)
            async with client.transaction() as txn:
                txn.insert("shop.item", {"id": 3})
                _ = 1 / 0
        with pytest.raises(NoSuchTable):
            async with client.transaction() as txn:
                txn.insert("shop.items", {"id": 3})
        async with client.transaction() as txn:
            pass
        assert txn.start_ts
        assert not txn.commit_ts
        with pytest.raises(TransactionEnded):
            txn.insert("shop.item", {"id": 3})

    async def body(shore: Shore) -> None:
        shore.start("app", app)
        await shore.read_until(lambda: len(shore.rows()) >= 2)
        await shore.read_up_to_now()
        assert shore.rows() == committed

    play(body)


def test_a_transaction_that_a_schema_change_overtakes_is_rolled_back() -> None:
    async def body(shore: Shore) -> None:
        async def app(client: Writer) -> None:
            with pytest.raises(SchemaChanged):  # noqa: PT012
                async with client.transaction() as txn:
                    txn.insert("shop.item", {"id": 1})
                    await shore.history.append(msgspec.json.encode(ADD_PRICE))
            async with client.transaction() as txn:
                txn.insert("shop.item", {"id": 2, "price": 3})

        await lived(shore, app)
        (rows,) = shore.rows().values()
        assert rows == [("c", None, {"id": 2, "Name": None, "price": 3})]

    play(body)


def test_a_transaction_whose_table_is_known_to_have_changed_is_not_prewritten() -> None:
    """Another one of the same client has read the schema since."""
    written: list[int] = []

    async def body(shore: Shore) -> None:
        async def app(client: Writer) -> None:
            write = client.client.write

            async def watched(binlog: Any, **named: Any) -> None:
                written.append(binlog.tp)
                await write(binlog, **named)

            client.client.write = watched  # type: ignore[method-assign]
            with pytest.raises(SchemaChanged, match="altered or dropped"):  # noqa: PT012
                async with client.transaction() as txn:
                    txn.insert("shop.item", {"id": 1})
                    await shore.history.append(msgspec.json.encode(ADD_PRICE))
                    async with client.transaction():
                        pass
            assert (written, client._upstream.decisions.status()["open"]) == ([], 0)
            await insert(client, 2)

        await lived(shore, app)
        assert len(shore.rows()) == 1

    play(body)


def test_a_commit_that_is_not_acked_in_time_is_no_flush_and_no_loss() -> None:
    async def body(shore: Shore) -> None:
        async def app(client: Writer) -> None:
            write, free = client.client.write, asyncio.Event()

            async def slow(binlog: Any, **named: Any) -> None:
                if binlog.tp == Commit:
                    await free.wait()
                await write(binlog, **named)

            client.client.write = slow  # type: ignore[method-assign]
            await insert(client, 1)
            assert not await client.flush(2)
            free.set()
            assert await client.flush(10)

        await lived(shore, app)
        assert len(shore.rows()) == 1

    play(body)


def test_a_pump_that_waits_too_long_has_the_transaction_rolled_back() -> None:
    """Its Commit never leaves once a Pump was told that it is rolled back."""

    async def body(shore: Shore) -> None:
        async def app(client: Writer) -> None:
            fresh = client._upstream.oracle.fresh

            async def slow(at_least: int) -> int:
                if at_least:
                    await asyncio.sleep(20)
                return await fresh(at_least)

            client._upstream.oracle.fresh = slow  # type: ignore[method-assign]
            with pytest.raises(RolledBack):
                await insert(client, 1)
            client._upstream.oracle.fresh = fresh  # type: ignore[method-assign]
            await insert(client, 2)

        await lived(shore, app, within_s=120)
        (rows,) = shore.rows().values()
        assert rows == [("c", None, {"id": 2, "Name": "n2"})]

    play(body, txn_timeout_s=5)


def is_a(kind: BinlogType.ValueType) -> Callable[[Binlog], bool]:
    return lambda binlog: binlog.tp == kind


POINTS: dict[str, tuple[Callable[..., None], bool]] = {
    "before its Prewrite": (partial(before, owner=PumpClient, when=is_a(Prewrite)), False),
    "after its Prewrite": (partial(after, owner=PumpClient, when=is_a(Prewrite)), False),
    # The Pumps ask the same oracle, so its own call would be anybody's.
    "with a commit_ts": (partial(before, owner=Upstream, name="_enter", when=bool), False),
    "before it is recorded": (partial(before, owner=Journal, name="append", when=bool), False),
    "recorded": (partial(after, owner=Journal, name="append", when=bool), True),
    "before its Commit": (partial(before, owner=PumpClient, when=is_a(Commit)), True),
    "after its Commit": (partial(after, owner=PumpClient, when=is_a(Commit)), True),
}  # fmt: skip


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("seed", range(3))
def test_a_client_that_died_answers_in_its_next_life(
    point: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction that died half way is in the stream if its decision was recorded, else not; the
    stream passes it either way, long before any time-out."""
    arm, is_committed = POINTS[point]
    told: list[int] = []

    async def body(shore: Shore) -> None:
        async def first(client: Writer) -> None:
            await insert(client, 1)
            assert await client.flush(10)
            arm(patch=monkeypatch, hit=[node])
            await insert(client, 2)

        async def second(client: Writer) -> None:
            told.append(await insert(client, 3))

        node = shore.world.node("app")
        shore.start("app", first)
        await shore.world.until(lambda: node.kills == 1, 60)
        await shore.world.sleep(shore.world.random("pause").random() * 3)
        shore.start("app", second)
        await shore.read_until(lambda: bool(told) and told[0] in shore.rows(), 60)
        await shore.read_up_to_now()
        ids = [after["id"] for rows in shore.rows().values() for _, _, after in rows]  # type: ignore[index]
        assert ids == ([1, 2, 3] if is_committed else [1, 3])

    play(body, seed)


def test_nobody_answers_for_another_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second client lives while the first is dead: it doesn't know, and says nothing."""
    told: list[int] = []

    async def body(shore: Shore) -> None:
        async def first(client: Writer) -> None:
            after(monkeypatch, PumpClient, is_a(Prewrite), [node])
            await insert(client, 1)

        async def other(client: Writer) -> None:
            told.append(await insert(client, 2))

        async def again(_: Writer) -> None:
            pass

        node = shore.world.node("app")
        shore.start("app", first)
        await shore.world.until(lambda: node.kills == 1, 60)
        shore.start("other", other)
        await shore.world.until(lambda: bool(told), 60)
        await shore.world.sleep(30)
        open_now = [pump.service.status()["resolver"]["open_beyond_grace"] for pump in shore.pumps]
        assert sum(open_now) == 1
        assert told[0] not in shore.rows()
        shore.start("app", again)
        await shore.read_until(lambda: told[0] in shore.rows(), 60)
        assert len(shore.rows()) == 1

    play(body, txn_timeout_s=5)


def test_a_rollback_is_written_when_the_block_fails_after_the_prewrite() -> None:
    """The oracle is gone for longer than the client waits: rolled back, and told so."""
    written: list[int] = []
    done = asyncio.Event()

    async def body(shore: Shore) -> None:
        async def app(client: Writer) -> None:
            async def never(at_least: int) -> int:
                raise SchemaChanged("made up")

            fresh, write = client._upstream.oracle.fresh, client.client.write

            async def watched(binlog: Any, **named: Any) -> None:
                written.append(binlog.tp)
                await write(binlog, **named)

            client.client.write = watched  # type: ignore[method-assign]
            with pytest.raises(SchemaChanged):  # noqa: PT012
                async with client.transaction() as txn:
                    txn.insert("shop.item", {"id": 1})
                    client._upstream.oracle.fresh = never  # type: ignore[method-assign]
            client._upstream.oracle.fresh = fresh  # type: ignore[method-assign]
            await insert(client, 2)
            assert await client.flush(10)
            done.set()

        shore.start("app", app)
        async with asyncio.timeout(60):
            await done.wait()
        assert written == [Prewrite, Rollback, Prewrite, Commit]
        await shore.read_up_to_now()
        assert len(shore.rows()) == 1

    play(body)


@pytest.mark.parametrize("ends", ["well", "cancelled"])
def test_one_that_was_cancelled_holds_up_nobody_when_its_client_has_left(
    ends: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between its Prewrite's ack and its Commit; there is no next life that could answer."""

    async def cancelled(self: Any) -> None:
        raise asyncio.CancelledError

    async def body(shore: Shore) -> None:
        async def app(client: Writer) -> None:
            await insert(client, 1)
            with monkeypatch.context() as patch:
                patch.setattr(Transaction, "_may_commit", cancelled)
                with pytest.raises(asyncio.CancelledError):
                    await insert(client, 2)
            done.set()
            if ends == "cancelled":
                raise asyncio.CancelledError

        done = asyncio.Event()
        node = shore.start("app", app, keeps_state=False)
        await done.wait()
        await node.stop()
        await shore.read_up_to_now()
        found = [after for rows in shore.rows().values() for _, _, after in rows]
        assert found == [{"id": 1, "Name": "n1"}]

    play(body)


def test_a_directory_into_which_something_may_still_write_stays_locked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def writes_on(_: object) -> bool:
        return False

    async def body(shore: Shore) -> None:
        ports = shore.world.ports("app")
        with pytest.raises(Stuck):
            async with writer(ports.bus, ports.clock, ports.rng, ports.disk):
                monkeypatch.setattr(supervisor, "_alone", writes_on)
        with pytest.raises(DirectoryLocked):
            ports.disk.lock(LOCK_PATH)

    play(body)
