"""DDL job types: TiDB's numbers and our names (appendix B.11 lists what the original does)."""

from __future__ import annotations

import difflib
import re

CREATE_SCHEMA = 1
DROP_SCHEMA = 2
CREATE_TABLE = 3
DROP_TABLE = 4
ADD_COLUMN = 5
DROP_COLUMN = 6
ADD_INDEX = 7
DROP_INDEX = 8
TRUNCATE_TABLE = 11
MODIFY_COLUMN = 12
RENAME_TABLE = 14
CREATE_VIEW = 21
DROP_VIEW = 24
RECOVER_TABLE = 25
MODIFY_SCHEMA = 26
CREATE_SEQUENCE = 34
DROP_SEQUENCE = 36
DROP_COLUMNS = 38
EXCHANGE_PARTITION = 42
RENAME_TABLES = 47
CREATE_TABLES = 60
RECOVER_SCHEMA = 63

VERSION_STEPS = {ADD_COLUMN: 4, DROP_COLUMN: 4, ADD_INDEX: 5, DROP_INDEX: 4, DROP_TABLE: 3}
"""Schema versions a job takes in TiDB, one for each state it passes; 1 for the others."""

JOB_STATE_ROLLED_BACK = 3
"""The job failed and was undone: it changes nothing, whatever version it carries."""
JOB_STATE_DONE = 4
JOB_STATE_SYNCED = 6

STATE_NONE = 0
STATE_DELETE_ONLY = 1
STATE_PUBLIC = 5

KIND_NAMES: dict[int, str] = {
    1: "create_schema",
    2: "drop_schema",
    3: "create_table",
    4: "drop_table",
    5: "add_column",
    6: "drop_column",
    7: "add_index",
    8: "drop_index",
    9: "add_foreign_key",
    10: "drop_foreign_key",
    11: "truncate_table",
    12: "modify_column",
    13: "rebase_auto_id",
    14: "rename_table",
    15: "set_default_value",
    16: "shard_row_id",
    17: "modify_table_comment",
    18: "rename_index",
    19: "add_partition",
    20: "drop_partition",
    21: "create_view",
    22: "modify_table_charset",
    23: "truncate_partition",
    24: "drop_view",
    25: "recover_table",
    26: "modify_schema_charset",
    27: "lock_table",
    28: "unlock_table",
    29: "repair_table",
    30: "set_tiflash_replica",
    31: "update_tiflash_replica_status",
    32: "add_primary_key",
    33: "drop_primary_key",
    34: "create_sequence",
    35: "alter_sequence",
    36: "drop_sequence",
    37: "add_columns",
    38: "drop_columns",
    39: "modify_auto_id_cache",
    40: "rebase_auto_random_base",
    41: "alter_index_visibility",
    42: "exchange_partition",
    43: "add_check_constraint",
    44: "drop_check_constraint",
    45: "alter_check_constraint",
    46: "alter_table_alter_partition",
    47: "rename_tables",
    48: "drop_indexes",
    49: "alter_table_attributes",
    50: "alter_partition_attributes",
    51: "create_placement_policy",
    52: "alter_placement_policy",
    53: "drop_placement_policy",
    54: "alter_partition_placement",
    55: "modify_schema_placement",
    56: "alter_table_placement",
    57: "cache_table",
    58: "alter_stats_options",
    59: "nocache_table",
    60: "create_tables",
    61: "multi_schema_change",
    62: "flashback_cluster",
    63: "recover_schema",
    64: "reorganize_partition",
    65: "alter_ttl",
    67: "remove_ttl",
    68: "create_resource_group",
    69: "alter_resource_group",
    70: "drop_resource_group",
    71: "alter_partitioning",
    72: "remove_partitioning",
}


def kind_name(job_type: int) -> str:
    """The snake_case name of a job type; `unknown_<n>` for one we never met."""
    return KIND_NAMES.get(job_type) or f"unknown_{job_type}"


def check_kind(name: str) -> None:
    """Raises ValueError for what no job type is called."""
    if name in KIND_NAMES.values() or re.fullmatch(r"unknown_[0-9]+", name):
        return
    (near,) = difflib.get_close_matches(name, KIND_NAMES.values(), n=1, cutoff=0.0)
    raise ValueError(f"there is no kind of DDL {name!r}; the nearest is {near!r}")
