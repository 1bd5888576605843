"""The envelope that a feed's configuration names."""

from __future__ import annotations

from tidelog_drainer.config import DrainerConfig
from tidelog_drainer.decode.debezium.envelope import DebeziumEnvelope
from tidelog_drainer.decode.envelope import TIDELOG, Envelope


def envelope_of(config: DrainerConfig) -> Envelope:
    if config.envelope == "debezium":
        return DebeziumEnvelope(config.feed, config.cluster_id)
    return TIDELOG
