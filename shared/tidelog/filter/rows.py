"""Mutations without the kinds of rows that an event filter ignores, before anything is decoded."""

from __future__ import annotations

from collections.abc import Collection

from tidelog.rows.payload import MutationRows
from tidelog.rows.table_codec import DELETE, INSERT, UPDATE


def without(mutation: MutationRows, ignored: Collection[int]) -> tuple[MutationRows, int]:
    """The mutation without rows of these types, and how many it had."""
    sequence = [kind for kind in mutation.sequence if kind not in ignored]
    count = len(mutation.sequence) - len(sequence)
    if not count:
        return mutation, 0
    kept = MutationRows(mutation.table_id)
    kept.inserted_rows = [] if INSERT in ignored else mutation.inserted_rows
    kept.updated_rows = [] if UPDATE in ignored else mutation.updated_rows
    kept.deleted_rows = [] if DELETE in ignored else mutation.deleted_rows
    kept.sequence = sequence
    return kept, count
