"""Bulk jobs as they are submitted, kept and handed to the process that does them: JSON or TOML.

    job = ReplayJob(inputs=["data/applier/relay"], downstream="mysql://copy@db/", until_ts=ts)
    decode_job(encode_job(job)) == job

A job holds no password: a URL names its file (`?password_file=`), or the variables of the process
that does the job have it.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import msgspec

from tidelog.config import redacted_url
from tidelog.errors import ConfigError
from tidelog.filter.loopback import check_place
from tidelog.ranges import DAY_S, Bytes, Range, Timestamp, check
from tidelog.security.access import NatsAccess
from tidelog.unreadable import NOT_READABLE

OnCorrupt = Literal["stop", "skip"]


class SparkSettings(
    msgspec.Struct, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True
):
    """How Spark is started. `master`: `local[*]`, `local[2]`, or a cluster's URL. `settings`: any
    of Spark's own, over ours."""

    master: str = "local[*]"
    memory: str = "1g"
    """Of the JVM; in local mode that is all of it, on a cluster the driver's."""
    settings: dict[str, str] = {}


class BulkJob(
    NatsAccess,
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    rename="kebab",
    tag_field="kind",
    forbid_unknown_fields=True,
):
    """What replay and backfill share. Sizes in bytes, times in seconds.

    Written is either into `downstream`, whose checkpoint is at the end where the feed's stream goes
    on, or into the directory `parquet` (any URL that Spark writes to)."""

    feed: str = "main"
    downstream: str = ""
    """`mysql://USER@HOST:PORT/` of MySQL, MariaDB or TiDB, with the Applier's options."""
    parquet: str = ""
    tables: tuple[str, ...] = ()
    """`db.table` with wildcards; none = all."""
    start_ts: Timestamp = 0
    """A downstream without a checkpoint holds everything up to there; 0 = up to where the logs of a
    replay begin."""
    parts: Annotated[int, Range(0, 128, "parts")] = 0
    """So many lanes of the downstream, each a connection of its own while it is written; 0 = by
    cores, and by size where there is much."""
    part_rows: Annotated[int, Range(1, 1_000_000, "rows")] = 5000
    """Rows of one downstream transaction."""
    cluster: str = "default"
    nats_url: str = ""
    """Where registry and oracle are asked, if the job needs them."""
    cluster_id: Annotated[int, Range(0, (1 << 64) - 1)] = 0
    checkpoint_table: str = "tidb_binlog.checkpoint"
    sync_mode: Literal[1, 2] = 1
    loopback_control: bool = False
    channel_id: Annotated[int, Range(0, (1 << 63) - 1)] = 0
    mark_schema: str = "retl"
    ddl_timeout_s: Annotated[float, Range(0, 7 * DAY_S, "seconds")] = 0.0
    spark: SparkSettings = SparkSettings()

    @property
    def targets(self) -> list[str]:
        return [target for target in (self.downstream, self.parquet) if target]

    def __post_init__(self) -> None:
        """Raises ConfigError."""
        check(self)
        if len(self.targets) != 1:
            found = "none is" if not self.targets else "several are"
            raise ConfigError(f"one target is needed, {found} named", hint=self._targets_hint())
        if self.loopback_control:
            check_place(self.checkpoint_table)

    def _targets_hint(self) -> str:
        return "either downstream or parquet"


class ReplayJob(BulkJob, frozen=True, kw_only=True, rename="kebab", tag="replay"):
    """Files of logs into a target: `inputs` are directories (an Applier's relay log, Pumps' data
    directories, `pb_binlog` files) as the process sees them."""

    inputs: tuple[str, ...]
    ddl_history: str = ""
    """For Pumps' logs: `embedded`, `file:PATH`, `http://HOST:PORT` of a TiDB's status API."""
    until_ts: Timestamp = 0
    """The last commit_ts to write; 0 = all there is."""
    rules: dict[str, Any] = {}
    """Of the Drainer's configuration the keys that say what the feed has (docs/filters.md)."""
    on_corrupt: OnCorrupt = "stop"
    """Damaged records stop the job, or are passed by and counted."""
    chunk_bytes: Bytes = 64 << 20
    """Of one task that reads."""
    segment_bytes: Bytes = 1 << 30
    """Of rows between two places where a job that was ended goes on."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.inputs:
            raise ConfigError("nothing to replay", hint="name a directory in inputs")


class BackfillJob(BulkJob, frozen=True, kw_only=True, rename="kebab", tag="backfill"):
    """Whole tables as they are at one timestamp into a target, which `to_feed` may be, too: the
    stream SNAP_<FEED>."""

    source: str
    """`mysql://USER@HOST:PORT/` of TiDB, MySQL or MariaDB, or a directory of dump files."""
    to_feed: bool = False
    snapshot_ts: Timestamp = 0
    """The timestamp to copy at; 0 = now, by the cluster's oracle."""
    chunk_rows: Annotated[int, Range(1, 100_000_000, "rows")] = 100_000
    """Of one task that reads and writes, about; a job that was ended goes on behind the last."""
    rows_per_s: Annotated[int, Range(0, 1 << 40, "rows a second")] = 0
    """At most; 0 = as fast as it goes."""

    @property
    def targets(self) -> list[str]:
        return [*super().targets, *(["feed"] if self.to_feed else [])]

    def _targets_hint(self) -> str:
        return "one of downstream, parquet, to-feed"


Job = ReplayJob | BackfillJob
URLS = ("source", "downstream", "parquet", "ddl-history", "nats-url")
"""Keys whose values may hold a password."""
_SECRET_SETTING = re.compile(r"secret|password|token|access[.]?key|account[.]key", re.IGNORECASE)


def encode_job(job: Job) -> bytes:
    return msgspec.json.encode(job)


def decode_job(data: bytes, of: str = "this") -> Job:
    """Raises ConfigError, which names the key and what they are `of`."""
    try:
        return cast(Job, msgspec.json.decode(data, type=Job))
    except NOT_READABLE as error:
        raise ConfigError(f"{of} is not a job: {error}", hint=_KEYS_HINT) from error


_KEYS_HINT = "docs/replay.md has the keys"


def read_job(path: Path) -> Job:
    """From a file, TOML by its name, else JSON. Raises ConfigError."""
    try:
        data = path.read_bytes()
        if path.suffix != ".toml":
            return decode_job(data, str(path))
        return cast(Job, msgspec.convert(tomllib.loads(data.decode()), type=Job))
    except (*NOT_READABLE, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path} is not a job: {error}", hint=_KEYS_HINT) from error
    except OSError as error:
        raise ConfigError(f"{path} can't be read: {error}") from error


def shown_job(job: Job) -> dict[str, Any]:
    """As a status shows it: no password within a URL."""
    shown: dict[str, Any] = msgspec.to_builtins(job)
    for key in URLS:
        if shown.get(key):
            shown[key] = redacted_url(shown[key])
    settings = shown["spark"]["settings"]
    shown["spark"]["settings"] = {
        key: "***" if is_secret_setting(key) else value for key, value in settings.items()
    }
    return shown


def is_secret_setting(key: str) -> bool:
    """Of Spark, by its name, as Spark itself redacts them."""
    return _SECRET_SETTING.search(key) is not None
