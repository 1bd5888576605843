"""`tidelog config import`: every key of the original is taken over or explained, and what comes out
is a configuration that the services load."""

from __future__ import annotations

import re
import stat
from collections.abc import Mapping
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tidelog.config import ServiceConfig, keys_of, load
from tidelog.downstreams.target import Target
from tidelog.errors import EXIT_CONFIG, ConfigError
from tidelog_applier.config import ApplierConfig
from tidelog_cli.app import app
from tidelog_cli.config_import.importing import import_file
from tidelog_cli.config_import.rules import DRAINER_RULES, PUMP_RULES, Rule
from tidelog_drainer.config import DrainerConfig
from tidelog_pump.config import PumpConfig

CONFIGS: Mapping[str, type[ServiceConfig]] = {
    "pump": PumpConfig,
    "drainer": DrainerConfig,
    "applier": ApplierConfig,
}
PUMP = """
addr = "127.0.0.1:8250"
advertise-addr = "pump.example:8250"
gc = 7
data-dir = "data.pump"
heartbeat-interval = 2
pd-urls = "http://127.0.0.1:2379"
socket = "unix:///tmp/pump.sock"
log-level = "warn"
log-file = "pump.log"
node-id = "pump-a"
gen-binlog-interval = 3
[security]
ssl-ca = "/path/ca.pem"
ssl-cert = "/path/cert.pem"
ssl-key = "/path/key.pem"
cert-allowed-cn = ["binlog"]
[storage]
sync-log = true
kv_chan_cap = 1048576
slow_write_threshold = 1.0
stop-write-at-available-space = "10 gib"
[storage.kv]
block-cache-capacity = 8388608
block-restart-interval = 16
block-size = 4096
compaction-L0-trigger = 8
compaction-table-size = 67108864
compaction-total-size = 536870912
compaction-total-size-multiplier = 8.0
write-buffer = 67108864
write-L0-pause-trigger = 24
write-L0-slowdown-trigger = 17
"""
DRAINER = """
addr = "127.0.0.1:8249"
advertise-addr = "drainer.example:8249"
data-dir = "data.drainer"
detect-interval = 10
pd-urls = "http://127.0.0.1:2379"
initial-commit-ts = -1
synced-check-time = 5
compressor = "gzip"
node-id = "drainer-a"
log-level = "info"
log-file = "drainer.log"
[security]
ssl-ca = "/path/ca.pem"
ssl-cert = "/path/cert.pem"
ssl-key = "/path/key.pem"
cert-allowed-cn = ["binlog"]
[syncer]
sql-mode = "ANSI_QUOTES"
ignore-txn-commit-ts = [414001]
ignore-schemas = "INFORMATION_SCHEMA,PERFORMANCE_SCHEMA,mysql"
replicate-do-db = ["~^b.*", "s1"]
txn-batch = 20
worker-count = 16
sync-ddl = true
loopback-control = true
channel-id = 1
db-type = "mysql"
safe-mode = false
disable-dispatch = false
disable-detect = false
load-schema-snapshot = false
case-sensitive = false
[syncer.relay]
log-dir = "relay"
max-file-size = 10485760
[[syncer.replicate-do-table]]
db-name = "test"
tbl-name = "log"
[[syncer.ignore-table]]
db-name = "test"
tbl-name = "~^a.*"
[syncer.binlog-filter-rule."no deletes"]
ignore-event = ["delete"]
ignore-sql = ["^drop table"]
[[syncer.table-migrate-rule]]
binlog-filter-rule = ["no deletes"]
[syncer.table-migrate-rule.source]
schema = "test"
table = "t_*"
[syncer.table-migrate-rule.target]
schema = "test"
table = "t"
[syncer.to]
host = "db.example"
user = "ro@ot"
password = "so:secret"
encrypted_password = ""
port = 3307
sync-mode = 2
read-timeout = "1m"
merge = false
[syncer.to.params]
time_zone = "UTC"
[syncer.to.security]
ssl-ca = "/path/down ca.pem"
ssl-cert = "/path/cert.pem"
ssl-key = "/path/key.pem"
cert-allowed-cn = ["db"]
[syncer.to.checkpoint]
type = "mysql"
schema = "tidb_binlog"
table = "checkpoint"
host = "127.0.0.1"
user = "root"
password = "hush"
encrypted_password = ""
port = 3306
[syncer.to.checkpoint.security]
ssl-ca = "/path/ca.pem"
ssl-cert = "/path/cert.pem"
ssl-key = "/path/key.pem"
cert-allowed-cn = ["db"]
"""
ELSEWHERE = {
    "pump": {
        *("enable-debug", "metrics-addr", "metrics-interval", "max-message-size"),
        "fake-binlog-interval",
    },
    "drainer": {
        *("cache-binlog-count", "metrics-addr", "metrics-interval"),
        *("syncer.enable-dispatch", "syncer.enable-detect"),
        *("syncer.to.dir", "syncer.to.retention-time", "syncer.to.topic-name"),
        *(k for k in DRAINER_RULES if k.startswith(("syncer.to.kafka-", "syncer.to.oracle-"))),
        "syncer.to.zookeeper-addrs",
    },
}
"""Keys that the example configurations don't have: flags, or of other downstreams."""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "original.toml"
    path.write_text(text)
    return path


def load_all(tmp_path: Path, text: str) -> dict[str, ServiceConfig]:
    out = tmp_path / "out"
    done = CliRunner().invoke(
        app, ["config", "import", str(written(tmp_path, text)), "--out", str(out)]
    )
    assert done.exit_code == 0, done.output
    assert "so:secret" not in done.output
    return {
        path.stem: load(CONFIGS[path.stem], path.stem, ["--config", str(path)], {})
        for path in out.glob("*.toml")
    }


def test_a_pump(tmp_path: Path) -> None:
    found = load_all(tmp_path, PUMP)
    (config,) = found.values()
    assert isinstance(config, PumpConfig)
    assert (config.oracle, config.grpc_addr) == ("follow", "127.0.0.1:8250")
    assert config.advertise_addr == "pump.example:8250"
    assert (config.gc, config.node_id, config.log_level) == (7, "pump-a", "warning")
    assert config.data_dir == "data.pump-tidelog"
    assert (config.security.ssl_ca, *config.security.cert_allowed_cn) == ("/path/ca.pem", "binlog")
    assert config.storage.stop_write_at_available_space == "10 gib"


def test_a_drainer_becomes_a_drainer_and_an_applier(tmp_path: Path) -> None:
    found = load_all(tmp_path, DRAINER)
    assert set(found) == {"drainer", "applier"}
    drainer, applier = found["drainer"], found["applier"]
    assert isinstance(drainer, DrainerConfig)
    assert isinstance(applier, ApplierConfig)
    assert drainer.pull_compression == "gzip"
    assert drainer.ignore_schemas == ("INFORMATION_SCHEMA", "PERFORMANCE_SCHEMA", "mysql")
    assert drainer.ignore_table[0].tbl_name == "~^a.*"
    assert drainer.table_migrate_rule[0].target.table == "t"
    assert drainer.binlog_filter_rule["no deletes"].ignore_sql == ("^drop table",)
    assert (drainer.channel_id, applier.channel_id, applier.sync_mode) == (1, 1, 2)
    assert (applier.worker_count, applier.txn_batch, applier.mode) == (16, 5000, "parallel")
    target = Target.parse(applier.downstream, applier.downstream_password.reveal())
    assert (target.user, target.host, target.port) == ("ro@ot", "db.example", 3307)
    assert target.password == "so:secret"
    assert target.tls is not None
    assert target.tls.ca == "/path/down ca.pem"
    assert applier.checkpoint_table != "tidb_binlog.checkpoint"
    secret = tmp_path / "out" / "downstream-password"
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("text", "rules", "which"), [(PUMP, PUMP_RULES, "pump"), (DRAINER, DRAINER_RULES, "drainer")]
)
def test_every_key_is_told_of(
    text: str, rules: Mapping[str, Rule], which: str, tmp_path: Path
) -> None:
    path = written(tmp_path, text)
    told = "\n".join(import_file(path, tmp_path).files.values())
    named = {key for key in rules if re.search(rf"[# :\d]{re.escape(key)}[ ;\n]", told)}
    url = {key for key in rules if key.startswith(("syncer.to.security", "syncer.db-type"))}
    assert set(rules) - ELSEWHERE[which] - named - url == set()
    assert ELSEWHERE[which] <= set(rules)


def test_rules_lead_to_keys_that_are_there_and_nothing_is_without_a_reason() -> None:
    for rules in (PUMP_RULES, DRAINER_RULES):
        for key, rule in rules.items():
            for place in rule.to:
                service, _, ours = place.partition(":")
                known = {".".join(k.table) for k in keys_of(CONFIGS[service]).values()}
                assert ours in known, key
            assert rule.to or rule.note, key


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("addr = 7\n", ":1: addr is a int"),
        ("\n[storage]\n\nsync-lock = true\n", ":4: storage.sync-lock is no key"),
        ("a = \n", ":1: Invalid value"),
        ('[syncer]\nworker-count = 1\ndb-type = "oracle"\n', ":3: a downstream 'oracle'"),
    ],
)
def test_what_is_wrong_is_pointed_at(text: str, told: str, tmp_path: Path) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ConfigError, match=re.escape(f"{path}{told}")):
        import_file(path, tmp_path)
    done = CliRunner().invoke(app, ["config", "import", str(path)])
    assert done.exit_code == EXIT_CONFIG


def test_secrets_are_not_printed_and_files_not_replaced(tmp_path: Path) -> None:
    path = written(tmp_path, DRAINER)
    done = CliRunner().invoke(app, ["config", "import", str(path)])
    assert done.exit_code == 0
    assert "so:secret" not in done.output
    assert "hush" not in done.output
    out = ["--out", str(tmp_path)]
    (tmp_path / "applier.toml").write_text("mine")
    assert CliRunner().invoke(app, ["config", "import", str(path), *out]).exit_code == 64
    assert (tmp_path / "applier.toml").read_text() == "mine"


def test_files_and_kafka(tmp_path: Path) -> None:
    text = '[syncer]\ndb-type = "file"\n[syncer.to]\ndir = "/var/pb"\nretention-time = 7\n'
    applier = load_all(tmp_path, text)["applier"]
    assert isinstance(applier, ApplierConfig)
    assert Target.parse(applier.downstream).retention_days == 7
    path = written(tmp_path, '[syncer]\ndb-type = "kafka"\n[syncer.to]\ntopic-name = "t"\n')
    imported = import_file(path, tmp_path)
    assert set(imported.files) == {"drainer.toml"}
    assert "subscribe" in imported.notices[0]


def test_a_date_in_a_list_is_one_again(tmp_path: Path) -> None:
    path = tmp_path / "drainer.toml"
    times = "[2020-01-01, 2020-01-01T10:00:00, 10:00:00, 1.5, inf, true]"
    path.write_text(f"[syncer]\nignore-txn-commit-ts = {times}\n")
    imported = import_file(path, tmp_path)
    assert any(times in text for text in imported.files.values())
