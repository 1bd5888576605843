"""The database whose binlogs the Pumps take: does it commit as the sorter needs, and what of its
tables can't be copied as they are?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tidelog.downstreams.target import Target
from tidelog.errors import ConfigError
from tidelog_cli.doctor import ring
from tidelog_cli.doctor.clocks import skew
from tidelog_cli.doctor.databases import Tables, opened
from tidelog_cli.doctor.finding import About, Finding, named

CHECK = "source"
ASYNC_COMMIT, ONE_PHASE = "tidb_enable_async_commit", "tidb_enable_1pc"
_ON = frozenset(("1", "ON"))


async def check_source(target: Target, our_ms: int, loops: Sequence[ring.Loop]) -> list[Finding]:
    """Raises ConfigError, Unavailable."""
    if target.scheme != "mysql":
        raise ConfigError("the source's URL is no database's", hint="mysql://USER@HOST:4000/")
    schema = loops[0].mark_schema if loops else ring.MARK_SCHEMA
    async with opened(target) as database:
        version = str(await database.value("VERSION()"))
        told = {n: await database.value(f"@@GLOBAL.{n}") for n in (ASYNC_COMMIT, ONE_PHASE)}
        findings = commits(database.shown, version, told)
        findings += binlog(database.shown, version, await database.value("@@GLOBAL.log_bin"))
        now_ms = await database.value("ROUND(UNIX_TIMESTAMP(NOW(3)) * 1000)")
        findings += [skew(database.shown, float(now_ms), our_ms)] if now_ms else []
        findings += eligible(database.shown, await database.tables())
        return findings + ring.marks(database.shown, await database.channels(schema), loops, schema)


def is_tidb(version: str) -> bool:
    return "tidb" in version.lower()


def commits(where: str, version: str, told: dict[str, Any]) -> list[Finding]:
    """commit_ts must be fetched after the Prewrite was acked."""
    about = About(CHECK, where)
    if not is_tidb(version):
        says = f"{version} is no TiDB: how its binlogs are made can't be seen here"
        return [about.unknown(says, "name the TiDB itself by --source, if there is one")]
    on = [name for name, value in told.items() if str(value).upper() in _ON]
    if on:
        hint = "; ".join(f"SET GLOBAL {name} = OFF" for name in on)
        says = f"{' and '.join(on)} is on: it commits below what readers were promised"
        return [about.wrong(says, f"`{hint}` on it, then start its sessions anew")]
    return [about.ok("async commit and 1PC are off")]


def binlog(where: str, version: str, value: Any) -> list[Finding]:
    if not is_tidb(version) or value is None:
        return []
    about = About(CHECK, f"binlog of {where}")
    if str(value).upper() in _ON:
        return [about.ok("it writes binlogs")]
    hint = "`[binlog] enable = true` in its configuration, and start it again behind the Pumps"
    return [about.wrong("it writes no binlogs", hint)]


def eligible(where: str, tables: Tables) -> list[Finding]:
    """What of its tables a copy is slow for, or lacks."""
    about = About("tables", where)
    findings = []
    if tables.untold:
        findings.append(
            about.unknown(f"it does not tell of {', '.join(tables.untold)}", "look there by hand")
        )
    if tables.keyless:
        findings.append(
            about.warning(
                f"without a unique key that is NOT NULL: {named(tables.keyless)}; one connection "
                "writes each downstream, row by row",
                "give them a primary key",
            )
        )
    if tables.cascades:
        findings.append(
            about.warning(
                f"actions of foreign keys in {named(tables.cascades)}: what they change comes as "
                "rows, if the source writes binlogs of it",
                "compare by `tidelog verify`",
            )
        )
    if tables.sequences:
        findings.append(
            about.warning(
                f"sequences don't move downstream: {named(tables.sequences)}",
                "after a change of sides set them by SETVAL above what the tables hold",
            )
        )
    return findings or [about.ok("every table has a key")]
