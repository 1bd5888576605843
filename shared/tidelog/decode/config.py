"""What decides how binlogs are decoded: the filters, and a policy for each kind of DDL."""

from __future__ import annotations

import msgspec

from tidelog.drainer_control import ACTIONS
from tidelog.feeds import check_name
from tidelog.filter.filters import Filters
from tidelog.filter.settings import FilterConfig
from tidelog.schema.jobs import check_kind


class DecodeConfig(FilterConfig, frozen=True, kw_only=True, rename="kebab"):
    """The Drainer's configuration is one."""

    feed: str = "main"
    """The feed it publishes; created by `tidelog feed create` before it begins."""
    ddl_policy: dict[str, str] = msgspec.field(default_factory=dict)
    """DDL kind -> forward, rewrite, skip or stop, over the defaults (docs/operating.md)."""

    def __post_init__(self) -> None:
        """Raises ConfigError, ValueError."""
        super().__post_init__()
        check_name(self.feed.partition("=")[0])
        for kind, action in sorted(self.ddl_policy.items()):
            if action not in ACTIONS:
                raise ValueError(f"ddl-policy {kind}={action}: one of {', '.join(ACTIONS)}")
            try:
                check_kind(kind)
            except ValueError as error:
                raise ValueError(f"ddl-policy {kind}={action}: {error}") from error
        Filters(self)
