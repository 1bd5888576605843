"""A mutation without a row: no TiDB writes one, but a binlog may hold it."""

from __future__ import annotations

import msgspec
import pytest

from tests.unit.decode.test_survey import Held, surveyed
from tests.unit.decode.upstream import Upstream
from tests.unit.drainer.test_parts import in_chunks
from tidelog.changes import Marker
from tidelog.decode.config import DecodeConfig
from tidelog.decode.decoder import Decoder
from tidelog.decode.envelope import TIDELOG, Envelope
from tidelog.decode.errors import Undecodable
from tidelog.decode.transactions import LargeTxn, RowTxn, Txn
from tidelog.filter.settings import BinlogFilterRule, TableMigrateRule, TableWildcards
from tidelog.ports import Outgoing
from tidelog_drainer.decode.debezium.envelope import DebeziumEnvelope
from tidelog_drainer.publish.parts import PartsBatcher
from tidelog_proto.binlog_pb2 import Binlog, PrewriteValue, TableMutation

ENVELOPES = {"tidelog": TIDELOG, "debezium": DebeziumEnvelope("main", 7)}


def upstream(envelope: Envelope = TIDELOG, **config: object) -> Upstream:
    """With tables app.t and app.o."""
    up = Upstream(**config)
    made = Decoder(DecodeConfig(**config), up.tracker, lambda _job: "", envelope)  # type: ignore[arg-type]
    made.allowed_version = 1 << 40
    up.decoder = made
    for table in ("t", "o"):
        up.create("app", table)
    return up


def changed(txn: Txn, *more: TableMutation, sequence: bool = True) -> Txn:
    """With these mutations around its own, and with or without the sequences of those."""
    commit_ts, start_ts, payload = txn
    assert isinstance(payload, bytes)
    binlog = Binlog.FromString(payload)
    value = PrewriteValue.FromString(binlog.prewrite_value)
    own = list(value.mutations)
    if not sequence:
        for one in own:
            del one.sequence[:]
    del value.mutations[:]
    value.mutations.extend([*more, *own, *more])
    binlog.prewrite_value = value.SerializeToString()
    return commit_ts, start_ts, binlog.SerializeToString()


def published(up: Upstream, envelope: Envelope, txn: Txn, *, large: bool) -> list[Outgoing]:
    """Nothing of one that is dropped."""
    commit_ts, start_ts, payload = txn
    assert isinstance(payload, bytes)
    batcher = PartsBatcher("main", "1:d", max_messages=3, max_bytes=2000, envelope=envelope)
    if large:
        found = up.decoder.large(commit_ts, start_ts, Held(payload), surveyed(payload))
        if found is None:
            return []
        assert isinstance(found, LargeTxn)
        return [out for chunk in in_chunks(batcher, found, 0) for out in chunk]
    rows = up.decoder.decode(txn)
    if rows is None:
        return []
    assert isinstance(rows, RowTxn)
    batcher.add(rows)
    return [out for chunk in batcher.finish(0, commit_ts).chunks for out in chunk]


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("name", ENVELOPES)
def test_a_mutation_without_rows_is_nothing_to_readers(name: str, large: bool) -> None:
    envelope = ENVELOPES[name]
    up = upstream(envelope)
    whole = up.txn(*(("app.t", "insert", {"id": at, "n": at}) for at in range(3)))
    empty = [TableMutation(table_id=up.id_of(f"app.{table}")) for table in ("o", "t")]
    expected = published(up, envelope, whole, large=large)
    assert msgspec.json.decode(expected[-1].data, type=Marker).txns[0].tables == {"app.t": 3}
    assert published(up, envelope, changed(whole, *empty), large=large) == expected
    assert up.dropped == {}


@pytest.mark.parametrize("large", [False, True])
def test_a_transaction_without_a_row_is_counted(large: bool) -> None:
    up = upstream()
    for count in (1, 2):
        empty = [TableMutation(table_id=up.id_of("app.o"))] * count
        assert published(up, TIDELOG, changed(up.txn(), *empty), large=large) == []
        assert up.dropped == {"empty": count}


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("ignored", [(), ("insert",)])
def test_rows_that_no_sequence_names_are_damage(ignored: tuple[str, ...], large: bool) -> None:
    """Also where an event filter leaves nothing of what the sequence names."""
    source = TableWildcards("app", "t")
    up = upstream(
        binlog_filter_rule={"some": BinlogFilterRule(ignore_event=ignored)},
        table_migrate_rule=(TableMigrateRule(source, binlog_filter_rule=("some",)),),
    )
    txn = changed(up.txn(("app.t", "update", {"id": 1, "n": 1})), sequence=False)
    with pytest.raises(Undecodable, match="the sequence names another count"):
        published(up, TIDELOG, txn, large=large)
    assert up.dropped == {}
