"""TiDB's schema objects, as the JSON of its status API and DDL history spells them.

Only what decoding, key choice and DDL need is kept; msgspec ignores the rest. `decode_jobs` reads
`GET /ddl/history` or a file of jobs (fixtures README: `ddl_history.json`).
None of these can be part of a cycle: the collector, which would take longer than decoding, needn't
look at them.
"""

from __future__ import annotations

import msgspec

FLAG_NOT_NULL = 1
FLAG_PRIMARY = 2
FLAG_UNSIGNED = 32
FLAG_ZEROFILL = 64
FLAG_BINARY = 128
FLAG_AUTO_INCREMENT = 512
FLAG_ON_UPDATE_NOW = 8192

UNSPECIFIED_LENGTH = -1
"""An index column without a prefix length, a type without width or scale."""

Default = str | int | float | bool | None


class Name(
    msgspec.Struct, frozen=True, omit_defaults=True, gc=False, rename={"text": "O", "lower": "L"}
):
    """A name as written and in lower case (TiDB's CIStr, `{"O": …, "L": …}`)."""

    text: str = ""
    lower: str = ""


class FieldType(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A column's type. `Tp` is MySQL's type byte, `Decimal` the scale or the fsp, -1 unknown."""

    Tp: int
    Flag: int = 0
    Flen: int = UNSPECIFIED_LENGTH
    Decimal: int = UNSPECIFIED_LENGTH
    Charset: str = ""
    Collate: str = ""
    Elems: tuple[str, ...] | None = None


class ColumnInfo(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A column. `default_bit` is the base64 of a BIT default, whose `default` may not be text."""

    id: int
    name: Name
    offset: int
    type: FieldType
    origin_default: Default = None
    origin_default_bit: str | None = None
    default: Default = None
    default_bit: str | None = None
    default_is_expr: bool = False
    generated_expr_string: str = ""
    generated_stored: bool = False
    state: int = 5
    comment: str = ""
    hidden: bool = False

    @property
    def public(self) -> bool:
        """Users see it: neither half added or dropped, nor the column behind an expression."""
        return self.state == 5 and not self.hidden

    @property
    def virtual(self) -> bool:
        return bool(self.generated_expr_string) and not self.generated_stored

    @property
    def not_null(self) -> bool:
        return bool(self.type.Flag & FLAG_NOT_NULL)

    @property
    def unsigned(self) -> bool:
        return bool(self.type.Flag & FLAG_UNSIGNED)


class IndexColumn(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A column of an index; `length` is the prefix length, -1 = whole."""

    name: Name
    offset: int
    length: int = UNSPECIFIED_LENGTH


class IndexInfo(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """An index or key."""

    id: int
    idx_name: Name
    idx_cols: tuple[IndexColumn, ...]
    is_unique: bool = False
    is_primary: bool = False
    is_invisible: bool = False
    mv_index: bool = False
    index_type: int = 1
    comment: str = ""
    state: int = 5


class ForeignKey(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A foreign key; `on_delete`/`on_update`: 0 none, 1 restrict, 2 cascade, 3 set null."""

    id: int
    fk_name: Name
    ref_table: Name
    cols: tuple[Name, ...] = ()
    ref_cols: tuple[Name, ...] = ()
    ref_schema: Name = Name()
    on_delete: int = 0
    on_update: int = 0


class PartitionDefinition(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One partition: its physical id, name and bounds (SQL text; a range's upper, a list's)."""

    id: int
    name: Name
    less_than: tuple[str, ...] | None = None
    in_values: tuple[tuple[str, ...], ...] | None = None


class PartitionInfo(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """`type`: 1 range, 2 hash, 3 list, 4 key."""

    type: int = 0
    expr: str = ""
    enable: bool = True
    columns: tuple[Name, ...] | None = None
    definitions: tuple[PartitionDefinition, ...] | None = None


class ViewInfo(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    view_select: str = ""


class SequenceInfo(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    sequence_start: int = 1
    sequence_increment: int = 1
    sequence_min_value: int = 1
    sequence_max_value: int = 0
    sequence_cache: bool = False
    sequence_cache_value: int = 0
    sequence_cycle: bool = False
    sequence_comment: str = ""


class TableInfo(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A table, view or sequence at one schema version."""

    id: int
    name: Name
    charset: str = ""
    collate: str = ""
    cols: tuple[ColumnInfo, ...] | None = None
    index_info: tuple[IndexInfo, ...] | None = None
    fk_info: tuple[ForeignKey, ...] | None = None
    state: int = 5
    pk_is_handle: bool = False
    is_common_handle: bool = False
    comment: str = ""
    partition: PartitionInfo | None = None
    view: ViewInfo | None = None
    sequence: SequenceInfo | None = None
    temp_table_type: int = 0

    @property
    def columns(self) -> tuple[ColumnInfo, ...]:
        """All columns in offset order, non-public and hidden ones included."""
        return self.cols or ()

    @property
    def indexes(self) -> tuple[IndexInfo, ...]:
        return self.index_info or ()

    @property
    def partition_ids(self) -> frozenset[int]:
        if self.partition is None:
            return frozenset()
        return frozenset(d.id for d in self.partition.definitions or ())


class DBInfo(msgspec.Struct, frozen=True, gc=False):
    """A schema (database)."""

    id: int
    db_name: Name
    charset: str = ""
    collate: str = ""
    state: int = 5


class HistoryInfo(
    msgspec.Struct,
    frozen=True,
    gc=False,
    rename={
        "schema_version": "SchemaVersion",
        "db_info": "DBInfo",
        "table_info": "TableInfo",
        "finished_ts": "FinishedTS",
        "table_infos": "MultipleTableInfos",
        "told_before": "ToldBefore",
    },
):
    """`BinlogInfo` of a job: what the schema is after it. `told_before`: the job is in the history
    before its binlog is written, and FinishedTS is of then (our Writer's); a TiDB's binlog is never
    above FinishedTS."""

    schema_version: int = 0
    db_info: DBInfo | None = None
    table_info: TableInfo | None = None
    finished_ts: int = 0
    table_infos: tuple[TableInfo, ...] | None = None
    told_before: bool | msgspec.UnsetType = msgspec.UNSET
    """Unset is not written: a job of an earlier release stays the bytes that it was."""


class DdlJob(msgspec.Struct, frozen=True, gc=False):
    """One job of the DDL history. `type` see `jobs.KIND_NAMES`; `state` 3 = rolled back."""

    id: int
    type: int
    schema_id: int = 0
    table_id: int = 0
    schema_name: str = ""
    table_name: str = ""
    state: int = 6
    schema_state: int = 5
    query: str = ""
    binlog: HistoryInfo | None = None

    @property
    def version(self) -> int:
        """The schema version this job produced; 0 = none."""
        return self.binlog.schema_version if self.binlog is not None else 0


def decode_jobs(data: bytes) -> list[DdlJob]:
    """A JSON array of jobs, as the status API answers. Raises msgspec.DecodeError."""
    return _JOBS.decode(data)


_JOBS = msgspec.json.Decoder(list[DdlJob])
