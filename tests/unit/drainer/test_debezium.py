"""The `debezium` envelope against events written down by hand, and in a feed."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any, cast

import msgspec
import pytest

from tests.integration.drainer.fakes import CLUSTER, FEED, FakeRegistry
from tests.unit.drainer.test_simulated import DDLS, OneTable, txn
from tests.unit.rows.tables import column, hidden_handle_table, index, int_key_table, mutation
from tidelog import changes, subjects
from tidelog.change_bodies import OtherEnvelope
from tidelog.change_reader import ChangeReader
from tidelog.changes import DdlMessage, DdlTable, Marker
from tidelog.decode.errors import Undecodable
from tidelog.messages import Consumer
from tidelog.ports import Bus, Message
from tidelog.rows.column import JSON_NULL
from tidelog.rows.errors import RowCorrupt
from tidelog.rows.table_codec import TableCodec
from tidelog.rows.values import Value
from tidelog.schema.history import TableAt
from tidelog.schema.model import FLAG_NOT_NULL, FLAG_UNSIGNED
from tidelog.schema.structure import structure
from tidelog.sim.world import World, run
from tidelog.subscriber.subscription import of_rows, of_transactions
from tidelog.subscriber.tables import Tables
from tidelog.timestamps import compose
from tidelog_drainer.config import DrainerConfig
from tidelog_drainer.decode.debezium.envelope import KEY_BYTES, DebeziumEnvelope
from tidelog_drainer.decode.envelopes import envelope_of
from tidelog_drainer.service import build

COLUMNS = (
    column(1, "name", 15, flen=40, charset="utf8mb4"),
    column(2, "price", 246, flen=8, decimal=2),
    column(3, "born", 10),
    column(4, "at", 12, decimal=0),
    column(5, "at6", 12, decimal=6),
    column(6, "ts", 7, decimal=3),
    column(7, "took", 11, decimal=2),
    column(8, "flag", 16, flen=1),
    column(9, "bits", 16, flen=12),
    column(10, "doc", 245),
    column(11, "kind", 247, elems=("a", "b"), charset="utf8mb4"),
    column(12, "raw", 252),
    column(13, "y", 13, flag=FLAG_UNSIGNED),
    column(14, "big", 8, flag=FLAG_UNSIGNED),
)
TABLE = int_key_table(*COLUMNS)
ROW: dict[str, Value] = {
    "id": 42,
    "name": "pén",
    "price": "19.90",
    "born": "1969-12-31",
    "at": "2026-11-22 10:00:00",
    "at6": "2026-11-22 10:00:00.000001",
    "ts": "2026-11-22 10:00:00.250",
    "took": "-00:00:01.50",
    "flag": 1,
    "bits": 0x0102,
    "doc": {"a": [1, None]},
    "kind": "b",
    "raw": b64encode(b"\x00\xff").decode(),
    "y": 2026,
    "big": (1 << 64) - 1,
}
SHOWN: dict[str, Any] = ROW | {
    "born": -1,
    "at": 1795341600000,
    "at6": 1795341600000001,
    "ts": "2026-11-22T10:00:00.250Z",
    "took": -1500000,
    "flag": True,
    "bits": b64encode(b"\x02\x01").decode(),
    "doc": '{"a":[1,null]}',
}
MS = 1795341600123
COMMIT_TS, START_TS = compose(MS, 7), compose(MS - 5, 1)
SOURCE: dict[str, Any] = {
    "version": "2.4.0.Final",
    "connector": "tidelog",
    "name": "shop",
    "snapshot": "false",
    "cluster_id": "7710567220212964292",
    "db": "app",
    "table": "t",
    "schema_version": 7,
    "ts_ms": MS,
    "commit_ts": COMMIT_TS,
}
ENVELOPE = DebeziumEnvelope("shop", 7710567220212964292)
CODEC = TableCodec(TABLE)


def inserted(row: dict[str, Value], b64: tuple[str, ...] = ("raw",)) -> bytes:
    return CODEC.encode_insert(row, 42, b64)


def events(
    envelope: DebeziumEnvelope, *rows: bytes, before: int = 0, **lists: Any
) -> list[tuple[dict[str, Any], dict[str, str]]]:
    """Bodies and headers of the messages of one mutation."""
    table = envelope.table("app", "t", TableAt("app", "t", 7, TABLE))
    made = mutation(rows, **lists)
    found, ops = table.events(made, True, COMMIT_TS, START_TS, before)
    assert sum(ops) == len(found)
    messages = [table.message([event]) for event in found]
    assert [table.op(event).decode() for event in found] == [
        json.loads(body)["op"] for body, _ in messages
    ]
    return [(json.loads(body), dict(headers)) for body, headers in messages]


def test_an_insert() -> None:
    ((body, headers),) = events(ENVELOPE, inserted(ROW))
    assert body == {
        "before": None,
        "after": SHOWN,
        "source": SOURCE | {"start_ts": START_TS},
        "op": "c",
        "ts_ms": MS,
        "transaction": {"id": str(START_TS), "total_order": 1, "data_collection_order": 1},
    }
    assert headers == {"Tidelog-Envelope": "debezium", "Tidelog-Key": '{"id":42}'}


def test_an_update_and_a_delete() -> None:
    after = ROW | {"price": "20.00", "doc": None, "born": None}
    update = CODEC.encode_update(ROW, after, 42, ("raw",))
    delete = CODEC.encode_delete(ROW, 42, ("raw",))
    (changed, _), (gone, headers) = events(ENVELOPE, updates=(update,), deletes=(delete,))
    assert (changed["op"], changed["before"]) == ("u", SHOWN)
    assert changed["after"] == SHOWN | {"price": "20.00", "doc": None, "born": None}
    assert (gone["op"], gone["before"], gone["after"]) == ("d", SHOWN, None)
    assert gone["transaction"]["total_order"] == 2
    assert headers["Tidelog-Key"] == '{"id":42}'


def test_what_debezium_s_forms_can_t_hold_stays_as_it_is() -> None:
    none: dict[str, Value] = {
        "born": "0000-00-00",
        "at": "0000-00-00 00:00:00",
        "ts": "0000-00-00 00:00:00.000",
    }
    odd: dict[str, Value] = ROW | none | {"at6": "2026-02-00 10:00:00.000000"}
    text = odd | {"name": b64encode(b"\xff").decode(), "doc": JSON_NULL}
    ((body, _),) = events(ENVELOPE, inserted(text, ("raw", "name", "doc")))
    for name in ("born", "at", "ts", "at6"):
        assert body["after"][name] == odd[name]
    assert body["after"]["doc"] == "null"
    assert body["after"]["name"] == "/w=="
    assert body["b64"] == ["name"]


def test_an_update_between_json_null_and_a_document() -> None:
    empty, text = ROW | {"doc": None}, ("raw", "doc")
    for doc in ({"a": [1, None]}, "é", 7):
        shown = json.dumps(doc, separators=(",", ":"), ensure_ascii=False)
        full = CODEC.encode_delete(ROW | {"doc": cast(Value, doc)}, 42, ("raw",))
        null = CODEC.encode_delete(empty | {"doc": JSON_NULL}, 42, text)
        for rows, told in (((full, null), (shown, "null")), ((null, full), ("null", shown))):
            ((body, _),) = events(ENVELOPE, updates=(b"".join(rows),))
            assert (body["before"]["doc"], body["after"]["doc"]) == told
            assert "b64" not in body


def test_in_a_replay_it_is_the_feed_that_changed() -> None:
    config = DrainerConfig(
        data_dir="", feed="shop=late", envelope="debezium", cluster_id=7710567220212964292
    )
    envelope = envelope_of(config)
    assert isinstance(envelope, DebeziumEnvelope)
    ((body, _),) = events(envelope, inserted(ROW))
    assert body["source"]["name"] == SOURCE["name"]


def test_the_order_in_a_transaction_counts_on_over_mutations_and_tables() -> None:
    envelope = DebeziumEnvelope("shop", 1)
    table = TableAt("app", "t", 7, TABLE)
    first, second = envelope.table("app", "t", table), envelope.table("app", "t", table)
    other = envelope.table("app", "u", table)
    made = mutation((inserted(ROW), inserted(ROW)))
    orders = []
    for start_ts in (5, 6):
        for at, which in enumerate((first, other, second)):
            found, _ = which.events(made, True, 10, start_ts, 2 * at)
            orders += [json.loads(which.message([one])[0])["transaction"] for one in found]
    assert [order["total_order"] for order in orders] == [1, 2, 3, 4, 5, 6] * 2
    assert [order["data_collection_order"] for order in orders] == [1, 2, 1, 2, 3, 4] * 2
    assert [order["id"] for order in orders] == ["5"] * 6 + ["6"] * 6
    # One that is decoded again, as its schema was not known yet, begins anew.
    (again, _) = first.events(made, True, 10, 6, 0)[0]
    assert json.loads(first.message([again])[0])["transaction"]["data_collection_order"] == 1


def test_a_table_without_a_key() -> None:
    keyless = TABLE.__class__(7, TABLE.name, cols=(column(0, "name", 15, charset="utf8mb4"),))
    table = ENVELOPE.table("app", "t", TableAt("app", "t", 7, keyless))
    row = TableCodec(keyless).encode_insert({"name": "a\nb"}, 1)
    (event,), _ = table.events(mutation((row,)), True, COMMIT_TS, START_TS, 0)
    body, headers = table.message([event])
    assert json.loads(body)["after"] == {"name": "a\nb"}
    assert headers["Tidelog-Key"] == "null"


def test_a_ddl() -> None:
    before = structure(TableAt("app", "was", 6, TABLE))
    after = structure(TableAt("app", "t", 7, TABLE))
    message = DdlMessage(
        COMMIT_TS, "ALTER …", "rename", "app", 7, after, [DdlTable("app", "app", before, after)]
    )
    told = json.loads(ENVELOPE.ddl(message))
    (change,) = told.pop("tableChanges")
    assert told == {
        "source": SOURCE,
        "ts_ms": MS,
        "databaseName": "app",
        "schemaName": None,
        "ddl": "ALTER …",
    }
    columns = change["table"].pop("columns")
    assert change == {
        "type": "ALTER",
        "id": '"app"."t"',
        "previousId": '"app"."was"',
        "table": {
            "defaultCharsetName": None,
            "primaryKeyColumnNames": list(after.key_columns),
            "comment": None,
        },
    }
    assert [one["name"] for one in columns] == ["id", *(one.name.text for one in COLUMNS)]
    assert [one["position"] for one in columns] == list(range(1, 16))
    assert columns[11]["enumValues"] == ["'a'", "'b'"]
    assert columns[2] == {
        "name": "price",
        "jdbcType": 3,
        "nativeType": None,
        "typeName": "DECIMAL",
        "typeExpression": "DECIMAL",
        "charsetName": "binary",
        "length": 8,
        "scale": 2,
        "position": 3,
        "optional": True,
        "autoIncremented": False,
        "generated": False,
        "comment": None,
        "hasDefaultValue": True,
        "defaultValueExpression": None,
        "enumValues": [],
    }
    for gone, kind in (
        (DdlTable("", "app", None, after), "CREATE"),
        (DdlTable("app", "", after), "DROP"),
    ):
        dropped = msgspec.structs.replace(message, tables=[gone])
        assert json.loads(ENVELOPE.ddl(dropped))["tableChanges"][0]["type"] == kind


async def stored(bus: Bus) -> list[Message]:
    state = await bus.stream_state(subjects.changes_stream(FEED))
    assert state is not None
    reader = await bus.read(subjects.changes_stream(FEED), start_seq=1)
    found: list[Message] = []
    while not found or found[-1].sequence < state.last_seq:
        found += await reader.next_batch(500, 1.0)
    await reader.close()
    return found


async def everything(reader: ChangeReader) -> None:
    while True:
        await reader.next()


def test_a_feed_whose_gaps_every_reader_sees_and_whose_rows_ours_refuse() -> None:
    """Over a restart behind a DDL: the position and the schema version are found there."""

    async def main(world: World) -> None:
        world.open_ddl_history = lambda url, bus: OneTable()
        bus = world.ports().bus
        registry = FakeRegistry(bus)
        await registry.start()
        registry.consumers = [Consumer("reader", FEED, 0)]
        pump = await registry.pump("p1")
        config = DrainerConfig(
            node_id="d1", cluster=CLUSTER, feed=FEED, lease_s=1.0, envelope="debezium"
        )
        node = world.node("drainer")
        node.start(build, config)
        pump.commit([*DDLS, txn(20), txn(21)], 21)
        await world.sleep(5)
        node.kill()
        node.start(build, config)
        pump.commit([txn(30)], 30)
        await world.sleep(10)
        found = await stored(bus)
        rows = [m for m in found if m.subject == subjects.changes_row(FEED, "app", "t")]
        assert [json.loads(m.data)["after"]["id"] for m in rows] == [20, 21, 30]
        assert [m.headers[changes.H_KEY] for m in rows] == [f'{{"id":{n}}}' for n in (20, 21, 30)]
        marks = [
            msgspec.json.decode(m.data, type=Marker) for m in found if m.subject.endswith("txn")
        ]
        ends = [mark.txns[-1].commit_ts for mark in marks]
        assert [mark.prev_commit_ts for mark in marks] == [0, *ends[:-1]]
        assert ends[-1] == 30
        with pytest.raises(OtherEnvelope) as caught:
            await everything(ChangeReader(bus, FEED, 0))
        assert "debezium" in caught.value.message
        for subscription in (
            of_transactions(bus, FEED, 0, Tables(), 1 << 20),
            of_rows(bus, FEED, 0, Tables()),
        ):
            with pytest.raises(OtherEnvelope):
                await subscription.next()

    run(main, 1)


def test_a_row_without_its_key_is_corrupt() -> None:
    a = column(0, "a", 3)
    keyed = msgspec.structs.replace(
        hidden_handle_table(a, column(1, "k", 3, flag=FLAG_NOT_NULL)),
        index_info=(index("u", (1, -1)),),
    )
    made = mutation(deletes=(TableCodec(hidden_handle_table(a)).encode_delete({"a": 1}, 1),))
    table = ENVELOPE.table("app", "t", TableAt("app", "t", 7, keyed))
    with pytest.raises(RowCorrupt, match="a row lacks the key column 'k'"):
        table.events(made, True, COMMIT_TS, START_TS, 0)


def test_a_key_that_no_header_holds_stops_the_feed_by_name() -> None:
    """A prefix of a long text may be a key, and the event's key is the whole text."""
    text = column(0, "k", 252, flag=FLAG_NOT_NULL, charset="utf8mb4")
    keyed = msgspec.structs.replace(hidden_handle_table(text), index_info=(index("u", (0, 10)),))
    table = ENVELOPE.table("app", "t", TableAt("app", "t", 7, keyed))
    room = KEY_BYTES - len('{"k":""}')

    def events(length: int) -> list[bytes]:
        row = TableCodec(keyed).encode_insert({"k": "a" * length}, 1)
        return table.events(mutation((row,)), True, COMMIT_TS, START_TS, 0)[0]

    assert len(table.message(events(room))[1]["Tidelog-Key"]) == KEY_BYTES
    with pytest.raises(Undecodable, match=rf"app\.t takes {KEY_BYTES + 1} bytes") as stop:
        events(room + 1)
    assert stop.value.commit_ts == COMMIT_TS
