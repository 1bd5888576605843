"""The configuration of filters, routes and loopback, with the original's names (appendix A.5)."""

from __future__ import annotations

from typing import Annotated

import msgspec

from tidelog.config import ServiceConfig
from tidelog.filter.loopback import MARK_SCHEMA
from tidelog.ranges import Range
from tidelog.schema.tracker import SYSTEM_SCHEMAS
from tidelog.timestamps import TS_MAX

CHANNEL_MAX = (1 << 63) - 1


class TableName(msgspec.Struct, frozen=True, rename="kebab", forbid_unknown_fields=True):
    """Of a list of tables: names, or `~` and a regular expression."""

    db_name: str
    tbl_name: str


class TableWildcards(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """As source with `*`, `?` and `[a-z]`, as target names. Empty: see TableMigrateRule."""

    schema: str = ""
    table: str = ""


class TableMigrateRule(msgspec.Struct, frozen=True, rename="kebab", forbid_unknown_fields=True):
    """Which tables get which target names and event filters.

    A source without a table is a schema with all its tables, and gives way to a rule that names
    tables. What the target leaves out stays as it is.
    """

    source: TableWildcards
    target: TableWildcards = TableWildcards()
    binlog_filter_rule: tuple[str, ...] = ()


class BinlogFilterRule(msgspec.Struct, frozen=True, rename="kebab", forbid_unknown_fields=True):
    """Kinds of events, and regular expressions for the text of DDLs, that are not published."""

    ignore_event: tuple[str, ...] = ()
    ignore_sql: tuple[str, ...] = ()


class FilterConfig(ServiceConfig, frozen=True, kw_only=True, rename="kebab"):
    """Everything that decides about a table; the Drainer's configuration is one."""

    replicate_do_db: tuple[str, ...] = ()
    """With `replicate-do-table` the allow list: if there is any, nothing else is published."""
    replicate_do_table: tuple[TableName, ...] = ()
    """With `replicate-do-db` the allow list."""
    ignore_schemas: tuple[str, ...] = tuple(sorted(SYSTEM_SCHEMAS))
    """With `ignore-table` the block list, which wins over the allow list."""
    ignore_table: tuple[TableName, ...] = ()
    """With `ignore-schemas` the block list."""
    ignore_txn_commit_ts: tuple[Annotated[int, msgspec.Meta(ge=1, le=TS_MAX)], ...] = ()
    """Transactions and DDLs that are not published; the schema follows these DDLs all the same."""
    table_migrate_rule: tuple[TableMigrateRule, ...] = ()
    """Which tables get which names in the feed, and which filters of events."""
    binlog_filter_rule: dict[str, BinlogFilterRule] = msgspec.field(default_factory=dict)
    """Filters of events by name: kinds of events and texts of DDLs that are not published."""
    sync_ddl: bool = True
    """false: DDLs change the schema that rows are decoded with, but are not published."""
    loopback_control: bool = False
    """Drop what the other direction of a bidirectional replication wrote (seed 004)."""
    channel_id: Annotated[int, Range(0, CHANNEL_MAX)] = 0
    """The channel of both directions; what carries its mark is dropped."""
    mark_schema: str = MARK_SCHEMA
    """Where the mark table is: one value for Drainers and Appliers of both directions."""
    origin: str = ""
    """Who wrote this first, as each message's header says; empty = the cluster's name."""

    def __post_init__(self) -> None:
        """Raises ConfigError, ValueError."""
        super().__post_init__()
        if not all(" " <= letter <= "~" for letter in self.origin):
            raise ValueError(f"origin {self.origin!r}: it is a header, so printable ASCII only")

    @property
    def origin_name(self) -> str:
        return self.origin or self.cluster
