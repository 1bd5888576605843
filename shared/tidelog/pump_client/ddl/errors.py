"""Schema changes that can't be. All are definite: nothing has changed."""

from __future__ import annotations

from tidelog.errors import BadInput


class DdlNotSupported(BadInput):
    """A statement, or a part of one, that this client can't turn into a job."""

    default_hint = (
        "one statement at a time: CREATE/DROP DATABASE; CREATE/DROP/TRUNCATE/RENAME TABLE; "
        "ALTER TABLE with one of ADD/DROP/MODIFY COLUMN, ADD/DROP INDEX, RENAME TO; "
        "CREATE/DROP INDEX; see docs/writing.md"
    )


class DdlRefused(BadInput):
    """A statement that the present schema doesn't allow."""

    default_hint = "nothing has changed"
