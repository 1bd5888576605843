"""What an Applier's configuration can't mean."""

from __future__ import annotations

import pytest

from tidelog.bulk.jobs import ReplayJob
from tidelog.config import load
from tidelog.errors import ConfigError
from tidelog_applier.config import ApplierConfig


def test_a_checkpoint_that_the_other_direction_would_publish_is_refused() -> None:
    """A Drainer with loopback-control publishes nothing of `tidb_binlog`, and all else."""
    for place in ("sync.place", "`sync`.place"):
        with pytest.raises(ConfigError, match="would be replicated") as caught:
            ApplierConfig(loopback_control=True, checkpoint_table=place)
        assert "tidb_binlog.mine" in caught.value.hint
        with pytest.raises(ConfigError, match="would be replicated"):
            ReplayJob(
                inputs=("relay",), downstream="db", loopback_control=True, checkpoint_table=place
            )
        assert ApplierConfig(checkpoint_table=place).checkpoint_table == place
    for place in ("tidb_binlog.checkpoint", "TiDB_Binlog.mine", "mine"):
        ApplierConfig(loopback_control=True, checkpoint_table=place)


@pytest.mark.parametrize("feed", ["orders.eu", "a b", "", "orders>"])
def test_a_feed_that_no_drainer_could_publish_is_refused_at_the_start(feed: str) -> None:
    """It was waited for, without an end."""
    with pytest.raises(ConfigError, match="of a-z, 0-9, - and _"):
        load(ApplierConfig, "applier", ["--feed", feed], {})
