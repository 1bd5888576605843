"""What the server says a table is, and what a step would make of it (docs/adr/0016).

A definition is the server's own text of it, without the table's name and its counters. What a step
makes of one is found out by the server, too: on an empty table of our own with that definition.
"""

from __future__ import annotations

import re

from tidelog.downstreams.checkpoint_table import STATE_DB
from tidelog.downstreams.ddl_mysql import Effect, Step
from tidelog.downstreams.literals import name, quote, table_name
from tidelog.downstreams.mysql_session import (
    ESCAPING,
    STRICT,
    MysqlSession,
    StatementRefused,
)

Place = tuple[str, str]
SHADOW: Place = (STATE_DB, "ddl_shadow")

_TABLE = "CREATE TABLE"
_NAMED = re.compile(rf"^{_TABLE} `(?:[^`]|``)*`")
_VIEW = re.compile(r"^(CREATE .*?) VIEW (?:`(?:[^`]|``)*`\.)?`(?:[^`]|``)*`")
_COUNTERS = re.compile(
    r"^(\) ENGINE=.*?)(?: AUTO_INCREMENT=\d+| /\*T!\[auto_rand_base\] AUTO_RANDOM_BASE=\d+ \*/)",
    re.MULTILINE,
)
_FOREIGN_KEY = re.compile(r",?\n  CONSTRAINT `(?:[^`]|``)*` FOREIGN KEY [^\n]*")


class Definitions:
    """Reads and tries definitions on one session, and leaves it in strict mode."""

    def __init__(self, session: MysqlSession) -> None:
        self._session = session

    async def of(self, places: tuple[Place, ...]) -> tuple[str, ...]:
        return tuple([await self.read(place) for place in places])

    async def read(self, place: Place) -> str:
        """ "" if there is no such table or view."""
        return await self._read(place, place[0]) if await self.exists(place) else ""

    async def exists(self, place: Place) -> bool:
        found = await self._session.rows(
            f"SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA = {quote(place[0])}"
            f" AND TABLE_NAME = {quote(place[1])}"
        )
        return bool(found)

    async def _read(self, place: Place, db: str) -> str:
        """As it would read in the schema `db`."""
        await self._session.use(ESCAPING)
        rows = await self._session.rows(f"SHOW CREATE TABLE {table_name(*place)}")
        await self._session.use(STRICT)
        return normal(str(rows[0][1]), db)

    async def after(self, step: Step, before: tuple[str, ...]) -> list[tuple[str, ...]]:
        """What the definitions `before` of a step's tables may be once it is done: one possibility
        for each way of doing it that the server takes."""
        if step.effect is Effect.MOVES:
            return [("", before[0])] if not before[1] else []
        tried = [one.sql for one in step.attempts if one.sql and not one.lenient]
        found = [await self._try(sql, step.tables[0], before[0]) for sql in tried]
        await self._drop_shadow()
        await self._session.use(STRICT)
        return [(one,) for one in dict.fromkeys(found) if one]

    async def _try(self, sql: str, place: Place, before: str) -> str:
        """ "" if the server can't say: it refuses, or doesn't read what it prints as it was."""
        await self._drop_shadow()
        shadow = table_name(*SHADOW)
        try:
            if before:
                await self._session.use(ESCAPING)
                await self._session.run(f"{_TABLE} {shadow}{before.removeprefix(_TABLE)}")
                if await self._read(SHADOW, place[0]) != before:
                    return ""
            await self._session.use(STRICT)
            await self._session.run(sql.replace(table_name(*place), shadow, 1))
            return await self._read(SHADOW, place[0])
        except StatementRefused:
            return ""

    async def _drop_shadow(self) -> None:
        await self._session.run(f"DROP TABLE IF EXISTS {table_name(*SHADOW)}")


def normal(text: str, db: str) -> str:
    """Without name and counters, and as in the schema `db`."""
    text = _COUNTERS.sub(r"\1", _VIEW.sub(r"\1 VIEW", _NAMED.sub(_TABLE, text)))
    return text.replace(f" REFERENCES {name(db)}.", " REFERENCES ")


def equal(found: tuple[str, ...], wanted: tuple[str, ...], effect: Effect) -> bool:
    """A table that was moved may differ in its foreign keys: they name tables from where it is."""
    if effect is not Effect.MOVES:
        return found == wanted
    return [_FOREIGN_KEY.sub("", one) for one in found] == [
        _FOREIGN_KEY.sub("", one) for one in wanted
    ]


def difference(wanted: str, found: str) -> str:
    """For people: the lines that differ."""
    if not found:
        return "it does not exist"
    if not wanted:
        return "it exists"
    ours, theirs = _lines(wanted), _lines(found)
    has = [line for line in theirs if line not in ours]
    lacks = [line for line in ours if line not in theirs]
    told = [f"it has {_few(has)}"] if has else []
    told += [f"it lacks {_few(lacks)}"] if lacks else []
    return "; ".join(told) or "its lines stand in another order"


def _lines(text: str) -> list[str]:
    return [line.strip(" ,") for line in text.splitlines()]


def _few(lines: list[str]) -> str:
    more = f" and {len(lines) - 3} more" if len(lines) > 3 else ""
    return " and ".join(line[:120] for line in lines[:3]) + more
