"""Errors of the schema room."""

from __future__ import annotations

from tidelog.errors import BadInput


class UnknownTable(BadInput):
    """No table has this id at this schema version."""

    default_hint = "the schema history is incomplete: check the DdlHistory source"

    def __init__(self, table_id: int, schema_version: int) -> None:
        super().__init__(f"no table has id {table_id} at schema version {schema_version}")
        self.table_id = table_id
        self.schema_version = schema_version


class UnknownJob(BadInput):
    """The history doesn't hold this DDL job (yet)."""

    default_hint = "fetch the newest jobs from the DdlHistory source and ask again"

    def __init__(self, job_id: int) -> None:
        super().__init__(f"no DDL job {job_id} in the schema history")
        self.job_id = job_id


class TablesAway(Exception):
    """Tables that were asked for lie in pages of the snapshot. Internal: whoever keeps it loads
    them and asks again."""

    def __init__(self, pages: list[int], needed: int) -> None:
        """`needed`: so many pages must be here at once, those that are here already among them."""
        super().__init__(pages, needed)
        self.pages = pages
        self.needed = needed
