"""A job (`tidelog.bulk.jobs`) as the options of those who carry it out."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from tidelog.bulk.jobs import Job, ReplayJob
from tidelog.config import Secret
from tidelog.decode.config import DecodeConfig
from tidelog.downstream import DownstreamOptions
from tidelog.errors import ConfigError

DOWNSTREAM_PASSWORD = "TIDELOG_BACKFILL_DOWNSTREAM_PASSWORD"  # noqa: S105 (its name)
SOURCE_PASSWORD = "TIDELOG_BACKFILL_SOURCE_PASSWORD"  # noqa: S105 (its name)
NODE = "backfill"
RULE_KEYS = frozenset(field.encode_name for field in msgspec.structs.fields(DecodeConfig)) - {
    "feed",
    "cluster",
    "cluster-id",
}


def decode_config(job: ReplayJob) -> DecodeConfig:
    """What the feed's Drainer decodes by. Raises ConfigError for what is none of its rules."""
    rules = {key.replace("_", "-"): value for key, value in job.rules.items()}
    if foreign := sorted(rules.keys() - RULE_KEYS):
        raise ConfigError(
            f"rules: {', '.join(foreign)} says nothing about what a feed has",
            hint="docs/filters.md has the keys",
        )
    known = {"feed": job.feed, "cluster": job.cluster, "cluster-id": job.cluster_id}
    try:
        return msgspec.convert(rules | known, type=DecodeConfig)
    except (msgspec.ValidationError, ValueError) as error:
        raise ConfigError(f"rules: {error}") from error


def downstream_options(job: Job, environ: Mapping[str, str], *, lanes: int) -> DownstreamOptions:
    """How the job's downstream is opened, by the driver; lanes of it are made by tasks."""
    return DownstreamOptions(
        url=job.downstream,
        password=Secret(environ.get(DOWNSTREAM_PASSWORD, "")),
        node=NODE,
        cluster_id=job.cluster_id,
        lanes=lanes,
        checkpoint_table=job.checkpoint_table,
        loopback=job.loopback_control,
        channel_id=job.channel_id,
        mark_schema=job.mark_schema,
        ddl_timeout_s=job.ddl_timeout_s,
        sync_mode=job.sync_mode,
    )
