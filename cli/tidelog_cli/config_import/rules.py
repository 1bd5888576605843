"""What becomes of each key of the original's pump.toml and drainer.toml (reference: the original's
`config.go` of both). The migration guide's table is made from this one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

Convert = Callable[[Any], Any]
PUMP, DRAINER, APPLIER = "pump", "drainer", "applier"

LEVELS = {"warn": "warning", "fatal": "error"}


class Rule(NamedTuple):
    """`to`: `service:key` where the value goes; none = it has no meaning here. `note`: why, or what
    is different. `takes`: the TOML types that the original takes."""

    to: tuple[str, ...] = ()
    note: str = ""
    takes: tuple[type, ...] = (str,)
    convert: Convert = lambda value: value


def _same(service: str, key: str, *takes: type, note: str = "") -> Rule:
    return Rule((f"{service}:{key}",), note, takes or (str,))


def _none(note: str, *takes: type) -> Rule:
    return Rule((), note, takes or (str,))


def own_directory(value: str) -> str:
    return f"{value.rstrip('/')}-tidelog" if value else value


def names(value: Any) -> list[str]:
    """`a,b` of ignore-schemas."""
    return [name.strip() for name in value.split(",") if name.strip()]


_PUMP_PD = 'nodes find each other on NATS; oracle = "pd" takes timestamps from there'
_DRAINER_PD = 'nodes find each other on NATS; ddl-history = "pd" reads the schema from TiKV'
_LOG = "the log goes to standard error: redirect that"
_PUSH = "nothing is pushed: Prometheus scrapes /metrics at http-addr"
_ROCKS = "the index is RocksDB, derived from the log, and sizes itself"
_DIRECTORY = "a directory of its own: what the original's holds is not taken over"
_TLS = "not taken over: docs/security.md says how connections are secured here"
_KAFKA = "there is no Kafka: applications subscribe to the feed on NATS (docs/guide/subscriber.md)"
_ORACLE = "Oracle is no downstream here"
_CHECKPOINT = "the checkpoint is in the downstream itself"
_TO = "it became a part of `downstream`"
_level = Rule((), "", (str,), lambda value: LEVELS.get(value, value))


def _log_level(*services: str) -> Rule:
    return _level._replace(to=tuple(f"{service}:log-level" for service in services))


_INDEX = (
    "block-cache-capacity",
    "block-restart-interval",
    "block-size",
    "compaction-L0-trigger",
    "compaction-table-size",
    "compaction-total-size",
    "compaction-total-size-multiplier",
    "write-buffer",
    "write-L0-pause-trigger",
    "write-L0-slowdown-trigger",
)
_SECURITY = ("ssl-ca", "ssl-cert", "ssl-key")

PUMP_RULES: Mapping[str, Rule] = {
    "addr": _same(PUMP, "grpc-addr", note="HTTP has an address of its own, http-addr"),
    "advertise-addr": _same(PUMP, "advertise-addr"),
    "socket": _same(PUMP, "socket"),
    "pd-urls": _same(PUMP, "upstream.pd-urls", note=_PUMP_PD),
    "data-dir": Rule((f"{PUMP}:data-dir",), _DIRECTORY, (str,), own_directory),
    "heartbeat-interval": _same(PUMP, "heartbeat-interval", int, float),
    "gc": _same(PUMP, "gc", int, str, note="a segment that a reader still needs stays longer"),
    "log-level": _log_level(PUMP),
    "log-file": _none(_LOG),
    "node-id": _same(PUMP, "node-id"),
    "gen-binlog-interval": _same(PUMP, "gen-binlog-interval", int, float),
    "enable-debug": _none('log-level = "debug" tells as much', bool),
    "metrics-addr": _none(_PUSH),
    "metrics-interval": _none(_PUSH, int),
    "max-message-size": _none("messages up to 2 GiB are taken", int),
    "fake-binlog-interval": _same(PUMP, "gen-binlog-interval", int, float),
    **{f"security.{key}": _same(PUMP, f"security.{key}") for key in _SECURITY},
    "security.cert-allowed-cn": _same(PUMP, "security.cert-allowed-cn", list),
    "storage.sync-log": _same(PUMP, "storage.sync-log", bool),
    "storage.kv-chan-cap": _none("what waits for the index is bounded in bytes", int),
    "storage.slow-write-threshold": _same(PUMP, "storage.slow-write-threshold", float, int),
    "storage.stop-write-at-available-space": _same(
        PUMP, "storage.stop-write-at-available-space", str, int
    ),
    **{f"storage.kv.{key}": _none(_ROCKS, int, float) for key in _INDEX},
}

DRAINER_RULES: Mapping[str, Rule] = {
    "addr": _same(DRAINER, "http-addr"),
    "advertise-addr": _none("a node announces where it can be reached"),
    "data-dir": Rule((f"{DRAINER}:data-dir",), _DIRECTORY, (str,), own_directory),
    "detect-interval": _none("a Pump that joins tells the Drainers itself", int),
    "pd-urls": _same(DRAINER, "upstream.pd-urls", note=_DRAINER_PD),
    "initial-commit-ts": _none(
        "said once, when the feed is created: tidelog feed create FEED --initial-commit-ts TS", int
    ),
    "synced-check-time": _none("tidelog wait, and applied_ts of tidelog status, say it", int),
    "compressor": Rule((f"{DRAINER}:pull-compression",), "", (str,), lambda v: v or "none"),
    "node-id": _same(DRAINER, "node-id"),
    "log-level": _log_level(DRAINER, APPLIER),
    "log-file": _none(_LOG),
    "cache-binlog-count": _none("what waits is bounded in bytes: source-buffer-bytes", int),
    "metrics-addr": _none(_PUSH),
    "metrics-interval": _none(_PUSH, int),
    **{f"security.{key}": _none(_TLS) for key in _SECURITY},
    "security.cert-allowed-cn": _none(_TLS, list),
    "syncer.sql-mode": _none("the Applier's sessions write values as they are in any mode"),
    "syncer.ignore-txn-commit-ts": _same(DRAINER, "ignore-txn-commit-ts", list),
    "syncer.ignore-schemas": Rule((f"{DRAINER}:ignore-schemas",), "", (str,), names),
    "syncer.ignore-table": _same(DRAINER, "ignore-table", list),
    "syncer.replicate-do-db": _same(DRAINER, "replicate-do-db", list),
    "syncer.replicate-do-table": _same(DRAINER, "replicate-do-table", list),
    "syncer.txn-batch": _none(
        "txn-batch counts what all connections get at once here: leave it at its default", int
    ),
    "syncer.worker-count": _same(APPLIER, "worker-count", int),
    "syncer.sync-ddl": _same(DRAINER, "sync-ddl", bool),
    "syncer.loopback-control": Rule(
        (f"{DRAINER}:loopback-control", f"{APPLIER}:loopback-control"), "", (bool,)
    ),
    "syncer.channel-id": Rule((f"{DRAINER}:channel-id", f"{APPLIER}:channel-id"), "", (int,)),
    "syncer.db-type": _none(_TO),
    "syncer.safe-mode": _none("what is written again comes to the same, always", bool),
    "syncer.disable-dispatch": Rule(
        (f"{APPLIER}:mode",), "", (bool,), lambda v: "atomic" if v else "parallel"
    ),
    "syncer.enable-dispatch": Rule(
        (f"{APPLIER}:mode",), "", (bool,), lambda v: "parallel" if v else "atomic"
    ),
    "syncer.disable-detect": _none("rows whose keys are in flight always wait", bool),
    "syncer.enable-detect": _none("rows whose keys are in flight always wait", bool),
    "syncer.load-schema-snapshot": _none("ddl-history says where the schema comes from", bool),
    "syncer.case-sensitive": _none("names are compared without case", bool),
    "syncer.table-migrate-rule": _same(DRAINER, "table-migrate-rule", list),
    "syncer.binlog-filter-rule": _same(DRAINER, "binlog-filter-rule", dict),
    "syncer.relay.log-dir": Rule((f"{APPLIER}:relay.log-dir",), "", (str,), own_directory),
    "syncer.relay.max-file-size": _same(APPLIER, "relay.max-file-size", int),
    "syncer.to.host": _none(_TO),
    "syncer.to.port": _none(_TO, int),
    "syncer.to.user": _none(_TO),
    "syncer.to.password": _none("it is kept in a file: downstream-password-file"),
    "syncer.to.encrypted-password": _none("write it, decrypted, into downstream-password-file"),
    "syncer.to.sync-mode": _same(APPLIER, "sync-mode", int),
    "syncer.to.read-timeout": _none("a statement may take as long as it takes; ddl-timeout-s"),
    "syncer.to.merge": _none("rows are always folded to their net effect", bool),
    "syncer.to.params": _none("sessions are set up by the Applier; TIMESTAMPs travel in UTC", dict),
    **{f"syncer.to.security.{key}": _none(_TO) for key in _SECURITY},
    "syncer.to.security.cert-allowed-cn": _none("the host's name is checked: tls_verify", list),
    "syncer.to.dir": _none(_TO),
    "syncer.to.retention-time": _none(_TO, int),
    **{
        f"syncer.to.{key}": _none(_KAFKA)
        for key in ("zookeeper-addrs", "kafka-addrs", "kafka-version", "kafka-client-id")
    },
    "syncer.to.topic-name": _none(_KAFKA),
    "syncer.to.kafka-max-messages": _none(_KAFKA, int),
    "syncer.to.kafka-max-message-size": _none(_KAFKA, int),
    "syncer.to.oracle-service-name": _none(_ORACLE),
    "syncer.to.oracle-connect-string": _none(_ORACLE),
    "syncer.to.checkpoint.type": _none(_CHECKPOINT),
    "syncer.to.checkpoint.schema": _none("checkpoint-table has a name that the original's hasn't"),
    "syncer.to.checkpoint.table": _none("checkpoint-table has a name that the original's hasn't"),
    **{
        f"syncer.to.checkpoint.{key}": _none(_CHECKPOINT)
        for key in ("host", "user", "password", "encrypted-password")
    },
    "syncer.to.checkpoint.port": _none(_CHECKPOINT, int),
    **{f"syncer.to.checkpoint.security.{key}": _none(_CHECKPOINT) for key in _SECURITY},
    "syncer.to.checkpoint.security.cert-allowed-cn": _none(_CHECKPOINT, list),
}
