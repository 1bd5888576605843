"""The envelope that a feed's configuration names."""

from __future__ import annotations

from tidelog.decode.envelope import TIDELOG, Envelope
from tidelog_drainer.config import DrainerConfig
from tidelog_drainer.decode.debezium.envelope import DebeziumEnvelope


def envelope_of(config: DrainerConfig) -> Envelope:
    if config.envelope == "debezium":
        # What a replay holds is the feed's.
        return DebeziumEnvelope(config.feed.partition("=")[0], config.cluster_id)
    return TIDELOG
