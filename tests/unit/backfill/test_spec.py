"""What a job says of decoding and writing, as the options of who does it."""

from __future__ import annotations

import pytest

from tidelog.bulk.jobs import ReplayJob
from tidelog.errors import ConfigError
from tidelog_backfill.jobs.spec import DOWNSTREAM_PASSWORD, decode_config, downstream_options

JOB = ReplayJob(inputs=("pump",), downstream="mysql://a@db/", feed="shop", channel_id=4)


def job(rules: dict[str, object]) -> ReplayJob:
    return ReplayJob(inputs=("pump",), parquet="out", feed="shop", rules=rules)


def test_rules_are_the_drainers() -> None:
    config = decode_config(
        job({"ignore_schemas": ["audit"], "ddl-policy": {"create_view": "skip"}})
    )
    assert config.ignore_schemas == ("audit",)
    assert config.ddl_policy == {"create_view": "skip"}
    assert config.feed == "shop"


def test_a_rule_that_is_none_is_named() -> None:
    with pytest.raises(ConfigError, match="batch-bytes says nothing"):
        decode_config(job({"batch-bytes": 4}))
    with pytest.raises(ConfigError, match=r"rules: .*ignore-schemas"):
        decode_config(job({"ignore-schemas": 4}))
    with pytest.raises(ConfigError, match="ddl-policy create_view=sometimes"):
        decode_config(job({"ddl-policy": {"create_view": "sometimes"}}))


def test_the_password_comes_from_the_process() -> None:
    options = downstream_options(JOB, {DOWNSTREAM_PASSWORD: "secret"}, lanes=3)
    assert options.password.reveal() == "secret"
    assert (options.url, options.lanes, options.channel_id) == ("mysql://a@db/", 3, 4)
